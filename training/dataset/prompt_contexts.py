"""Prose that prompts quote: short articles, mails, reviews and notes, all written by hand.

Each value starts with a line "=== name"; several values under one name form a list.
The lines of a paragraph are joined.
"""

RAW = r"""
=== article
The town of Harrow Bend reopened its covered market on Saturday after two years of repairs. The
roof, built in 1911, had been leaking since a storm in 2019, and inspectors closed the hall the
following spring. The council spent 3.4 million on new beams, drains and lighting, about half of
it from a national heritage fund. Forty-two of the sixty original stallholders have returned.
Rents were frozen for the first year, but traders say they worry about what comes after. "We lost
our regulars to the supermarket," said fishmonger Ruth Okell, "and we have twelve months to win
them back." The mayor promised a free bus on market days until October.
=== article
Researchers at a coastal field station spent six summers counting sea grass from small boats.
Their results suggest that the meadows shrink fastest not where the water is warmest, but where
anchors are dropped most often. In bays with fixed mooring buoys, cover fell by 4 percent over the
period; in bays where visitors anchor freely, it fell by 31 percent. Sea grass stores carbon,
shelters young fish and calms waves before they reach the shore. The team recommends buoys in
every popular bay and a map of forbidden zones on navigation apps. A sailing club has offered to
pay for the first ten buoys, which cost around 900 each.
=== article
When the night bus line 27 was cut last year, hospital workers in the north of the city started to
share cars. A spreadsheet made by a nurse named Dolores Paz now lists 118 drivers and some 300
passengers, grouped by shift. Nobody is paid; riders bring coffee or fill the tank once a month.
The transport authority says the line carried nine passengers an hour, too few to justify its cost
of 410,000 a year. Paz says the count was made during school holidays. A petition with 6,200
signatures will be debated in the city chamber in March.
=== article
A school in the valley has replaced its bell with silence. For one term, the 540 pupils of Linden
Secondary moved between lessons by the clock alone. Head teacher Bo Adeyemi expected chaos, but
late arrivals dropped from an average of 22 a day to 13. Teachers reported calmer corridors and
lessons that ended at a natural point. Not everyone is happy: three parents complained that their
children missed the bus, and the music department wants a signal before concerts. The school will
vote in June on whether to keep the experiment, with pupils holding half of the votes.
=== article
The bakery chain Kornmann will stop selling bread made the same day after 5 p.m. and instead offer
yesterday's loaves at a third of the price. The company threw away 14 percent of its bread last
year, mostly in the evening. In a test of eight branches, waste fell to 6 percent, and evening
sales rose slightly because students came for the cheap loaves. Bakers welcome the change since
the last baking round, which began at 2 p.m., is no longer needed. Competitors are sceptical: one
called it "training customers to wait for discounts". Kornmann plans to extend the rule to all 96
shops by the autumn.
=== article
An old railway tunnel under Mount Cerro has become a laboratory for mushrooms. The tunnel stays at
13 degrees and 90 percent humidity all year, which saves the growers most of their energy costs.
Two former railway engineers lease 800 metres of it and harvest around 2 tonnes of oyster
mushrooms a month. They grow on used coffee grounds collected from 70 cafes by cargo bike. The
spent blocks go to farmers as compost. The pair hope to double production next year, but first
they need permission to widen the ventilation shaft, a home to protected bats.
=== article
The island council voted 7 to 4 to limit cruise ships to two a day from next May. On some summer
days up to six ships, with 15,000 passengers together, have docked at a town of 4,800 people.
Shopkeepers near the port opposed the rule and expect to lose a fifth of their income. Residents
further up the hill celebrated: water pressure drops whenever the ships are in. The port authority
may appeal, since contracts for 2026 are already signed. A survey by the local paper found that 58
percent of islanders support the limit, 30 percent are against it and the rest are undecided.
=== email
Hi team, quick update on the warehouse move. The new site in Dalby will be ready on 14 April, one
week later than planned, because the fire doors failed inspection. Please have all boxes labelled
by the 10th. Lorries come on the 15th and 16th; Nadia has the driver list. The old site must be
empty and swept by the 18th or we pay another month of rent (6,200). Parking at Dalby is tight, so
share cars if you can. If you have fragile equipment, tell Jonas before Friday. Thanks, Petra
=== email
Dear Ms Laurent, thank you for your interest in the flat on Mill Street. The rent is 950 a month
plus about 120 for heating. The deposit is two months' rent. Pets are allowed after we have met
them. We can offer viewings on Thursday between 5 and 7 or on Saturday from 10 to 12. Please bring
proof of income and a copy of your ID. The flat is free from 1 September, though the current
tenant may leave earlier. Kind regards, H. Baum
=== email
Hello everyone, the annual meeting of the garden club takes place on 3 June at 18:30 in the parish
hall, not in the school as printed in the newsletter. On the agenda: the broken pump, the waiting
list (now 23 names), the election of a treasurer since Colin steps down, and the plan to keep
bees. Please bring a dish to share. Those who can't come may vote by email until noon that day.
See you there, Maureen
=== email
Hey Sam, so sorry but I have to push our demo again. The staging server lost its disk on Sunday
and we're restoring from Friday's backup. Realistically we can show you the checkout flow on
Thursday 22nd at 14:00, the reports page will need another week. The bug you found with the
currency symbol is fixed. Could you send me the list of test users again? The last file had no
passwords in it. Cheers, Ingrid
=== email
Dear customer, we are writing because your parcel 7741-09 could not be delivered on 8 November.
The driver noted that the street door was locked and no name matched the bell. Your parcel is kept
at the pick-up point Kiosk Adler, Bahnhofstrasse 12, until 17 November, open Monday to Saturday
from 8 to 20. Please bring an ID. After that date it goes back to the sender and the delivery fee
of 4.90 is not refunded. Your parcel service
=== email
Hi Dr Osei, I'm a second-year student in your hydrology course and I missed the field trip on
Monday as I had a fever (doctor's note attached). The syllabus says the report counts for 20
percent. May I join the Thursday group instead, or write about the data set from last year? I have
a lab until 13:00 on Thursday but could be at the bridge by 13:30. Best wishes, Tomas Lind
=== review
Bought this kettle in March. Boils fast and looks lovely on the counter, but the lid started to
stick after about six weeks and now I need a spoon to open it. Customer service answered within a
day and sent a new lid for free, which sticks too. I'd still take it over my old one, only don't
pay full price.
=== review
Absolutely the worst hotel breakfast of my life. Cold eggs, grey coffee, and a queue for the
single toaster. The room itself was quiet and the bed fantastic, and reception let us check out at
two without charge. But if you go, eat somewhere else.
=== review
These boots carried me 800 km over rocks, mud and snow and the sole is still fine. They took a
week to break in. Laces are too short, replaced them on day one. Best money I've spent in years
and I'll buy the same again.
=== review
The app was great until the last update. Now it logs me out every morning, the widget shows
yesterday's weather, and there are ads between the hourly rows. I paid for the ad free version!
Three emails, no answer. Going back to looking out of the window.
=== review
Went in expecting a silly comedy and left in tears. The first half hour drags and the music is too
loud, but the scene in the laundrette is worth the ticket alone. My kids were bored, my mother
wants to see it again.
=== review
It's okay. The vacuum picks up crumbs and cat hair but gives up on the rug. Battery lasts 25
minutes, not the 40 on the box. Light, quiet, easy to empty. For a small flat it does the job, for
a house look elsewhere.
=== minutes
Present: Ana, Bert, Chidi, Dora. Ana reported that the website had 12,400 visits in May, up from
9,800. Bert has not finished the price list because two suppliers did not reply; he will call them
by Wednesday. Chidi wants to move the summer sale from July to August. Dora disagreed since staff
are on leave then. Decision: sale from 20 to 31 July. Dora books the photographer, Ana writes the
newsletter by the 5th, budget 800. The coffee machine is broken again. Next meeting on 12 June.
=== minutes
Call with the roofers, 9 am. They can start on 2 May if the scaffold is up by 28 April. Price
rises from 18,500 to 19,900 because of the extra gutter. Luis asked for a guarantee of ten years,
they offer seven. Mira will talk to the neighbours about the noise. We agreed to pay 30 percent up
front. Open: who clears the attic? Luis sends the signed offer by Friday.
=== minutes
Weekly sync. Release 3.2 slipped by two days, cause: flaky upload test. Yusuf fixes it today. Kim
finished the export screen and waits for review by Petra. Support had 41 tickets, 17 about the
login mail landing in spam. Petra sets up the new mail domain before Thursday. Decided to drop
support for the old tablet layout in September. Kim is away next week, Yusuf takes over her
tickets.
=== minutes
Parents' evening committee. Budget left: 340. The bouncy castle costs 180, face painting is free
as Ms Roy volunteers. We need eight more helpers for the grill. Allergies: label every dish. Rain
plan is the gym, the caretaker needs to know by Tuesday, Jon asks him. Sofia prints 200 flyers.
Raffle prizes so far: bike helmet, book bundle, cinema voucher.
=== minutes
Board of the rowing club, short session. Two boats need new seats (Hal orders, 260 each).
Membership fell from 88 to 81. Open day proposed for 4 May, approved by all. Greta contacts the
local radio. The dispute over the key to the boathouse was put off. Fee for students is cut from
90 to 60 a year from January.
=== story
Ida found the letter under the floorboard of the shed on the day they sold the house. It was
addressed to nobody. Inside, in her father's square handwriting, stood a list of birds with dates
beside them, and on the last line: "heron, 3 May, she would have liked it." Her mother had died on
the first of May. Ida sat on the upturned bucket until the buyers rang the bell, then folded the
list into her shoe.
=== story
The lift stopped between four and five. Mr Varga had his cello, the girl had a cake. They were
silent for ten minutes. Then she asked whether the cello was heavy, and he asked whether the cake
was for someone. By the time the fire brigade forced the doors, the cake was gone, and the firemen
stood on the stairs and waited politely for the end of the second movement.
=== story
Every evening the old ferryman rowed across the river with an empty boat and rowed back. The
children of the village thought that he was mad. Only when the floods took the bridge did they
understand: he alone still knew where the rocks lay. He carried them over in nine trips, and on
the tenth he took the mayor, who had sold the ferry.
=== story
The robot in the museum was built to answer one question: where are the toilets? For eleven years
it pointed left. When the renovation moved them to the right, nobody told it. Visitors complained
until a boy of six took its arm and turned it gently around. The robot blinked, thanked him, and
pointed right, for ever after, facing the wall.
=== story
Noor baked two hundred rolls before the power failed. In the dark she gave them away at the door,
one each, to people with torches who talked about the storm. Next morning the street had no light
but her till was full: everyone had come back to pay, and some had paid twice.
=== bio
Hello! I'm Yara Coen, 34, a structural engineer from Ghent now based in Porto. You can reach me at
yara@example.org or +351 555 0142. I have eleven years of experience with timber bridges.
=== bio
Invoice contact: Bram Tull, Tull Joinery Ltd, 8 Quarry Lane, Leeds. Phone 0113 555 0199. The job
was two oak doors, fitted 6 March, 1,340 pounds, payable within 30 days.
=== bio
My name is Luz Herrera and I'd like to book a double room for 3 nights from 19 August, with a cot
for the baby, late arrival around 23:00. Mail: luz.h@example.com.
=== bio
Lost: grey backpack, left on tram 6 towards Central on 2 October about 7:45. It holds a tablet, a
red lunch box and house keys. Finder please call Ewan, 555 0177.
=== bio
For sale: Marlin 26 inch mountain bike, 2019, green, one owner, new chain, 280 euros or best
offer, pick-up in Basel only. Ask for Nico, evenings, 061 555 0101.
"""
