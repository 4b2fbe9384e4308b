"""Patterns with a long system prompt: "@S name" names it, the rest is the user's message.

See patterns_chat for the notation of the slots.
"""

CHAT = r"""
- @S support How much is express delivery? I want to send {order} to my mum.
- @S support Hi, my order {ordno} with {order} has still not arrived and I needed it {when}. I'm
  really annoyed, this is the second time.
- @S support can i return {order} after {n:5-50} days? yes or no
- @S support I got {order} but it's broken. Please write me a full explanation of what to do, step
  by step, from packing to refund.
- @S support Where is {ordno}?
- @S support I have a gift card of {n:20-100} and the basket is {m:30-120} with {order}. What do I
  still pay with standard delivery?
- @S support Write me a letter that I can print and put in the return parcel for order {ordno},
  reason: wrong size, item: {order}.
- @S support You people are useless!!! {order} came in the wrong colour, what now?? order nr
  {ordno}
- @S support Do you ship to {country}?
- @S voice How many {countq}?
- @S voice Tell us a story about {hero} while we eat.
- @S voice Set a timer for {n:3-45} minutes please.
- @S voice What sound does the {animal} make?
- @S voice Let's play a guessing game about {country}, you start and explain the rules.
- @S voice Can {pet} eat {food}?
- @S voice how does {topic} work? the kids want to know all about it
- @S voice Say good night to {name} in {hlang}.
- @S voice I'm bored and it is {season}. Three ideas?
- @S editor Tagline for {biz}.
- @S editor Instagram post for {biz}, topic: {season}.
- @S editor Newsletter item: {name} joins the team as {job} {when}.
- @S editor Home page text for {biz} in {city}.
- @S editor Three-minute speech for {event}, given by {name}.
- @S editor Headline only, please:\n\n{article}
- @S editor Tighten this without changing the meaning:\n\n{email}
- @S editor Fix: {badsent}
- @S editor Press release: {biz} now sells {product}. {n:150-300} words.
- @S travel Do I need a visa for {country} with a German passport?
- @S travel Plan {trip}. We like {hobby} and eat {diet}.
- @S travel Is {city} nice in {season}?
- @S travel {city} or {city2} with a wheelchair?
- @S travel Packing list for {n:3-12} days in {country} in {season}.
- @S travel How many days for {city}? Number only.
- @S travel What should I absolutely not do in {country}? Explain the customs so I don't embarrass
  myself.
- @S travel Write a postcard from {city} to {name}.
- @S kitchen Can I freeze {dish}?
- @S kitchen I have {ingred}. What can I cook for {n:2-6}?
- @S kitchen {diet} version of {dish} please
- @S kitchen My {dish} turned out bland and watery, why?
- @S kitchen How many grams of {food} per person?
- @S kitchen Plan a three-course menu for {event}, {diet}, with all recipes.
- @S kitchen what can i use instead of {food}
- @S kitchen oven temp for {dish}? just the number
- @S extractor Keys: name, phone, city.\n\n{bio}
- @S extractor Label from {positive, negative, mixed}:\n\n{review}
- @S extractor Keys: people, tasks (list of {"who", "what", "due"}), decisions.\n\n{minutes}
- @S extractor {email}
- @S extractor Keys: sender, is_request (boolean).\n\n{email}
- @S extractor Key: numbers (list of every number in the text with its meaning).\n\n{article}
"""

MATH = r"""
- @S tutor just the answer: {a:12-99} x {b:12-99}
- @S tutor How do I solve {a:2-9}x + {b:1-20} = {c:30-90}?
- @S tutor I got {c:100-900} for {a:20-90} times {b:11-30}, is that right?
- @S tutor I don't get {mtopic} at all, I'm so bad at this, test is {when}
- @S tutor Can I have {n:4-8} practice problems on {mtopic}?
- @S tutor What does {mconcept} mean?
- @S tutor Find the maximum of y = -x^2 + {a:2-16}x + {b:1-9}. I've not had derivatives yet.
- @S tutor {name} runs {a:3-12} km in {b:20-70} minutes. How long for {c:13-21} km at the same
  speed? explain it to me
- @S tutor Why do we need {mtopic} in real life?
- @S tutor which formula do i need for the {shape}
- @S voice What's {a:12-40} times {b:3-19}?
- @S voice how many {unitq}
- @S kitchen The recipe is for {n:2-5} and needs {a:200-600} g flour. How much for {m:6-12}?
"""

CODE = r"""
- @S coder Function that {ptask}, {plang}.
- @S coder What's the default port of {port}?
- @S coder Add error handling:\n\n{pysnip}
- @S coder Full program: {app} in {plang}.
- @S coder regex for {rx}, just the pattern
- @S coder what does this do\n\n{jssnip}
- @S coder Tests for this please.\n\n{pysnip}
- @S coder Explain {concept} in detail, I have an exam {when}.
- @S coder rename the variables so they make sense\n\n{csnip}
- @S reviewer Please review:\n\n{pysnip}
- @S reviewer Verdict only:\n\n{diff}
- @S reviewer Rewrite this the way you'd like to see it, with the list of changes.\n\n{jssnip}
- @S reviewer Highest severity in this snippet? One word.\n\n{csnip}
- @S reviewer Is this safe to run in production?\n\n{sqlsnip}
- @S reviewer The author asks: why does "{errmsg}" happen after my change?\n\n{diff}
- @S analyst I need {sqlq}.
- @S analyst Which table has the data about {sqlq}? only the name
- @S analyst What does this tell me?\n\n{sqlsnip}
- @S analyst Please set the stock of product {n:100-999} to {m:1-60}.
- @S analyst Outline a monthly report for management about customers in {country}: sections,
  figures, charts and how to read them.
- @S analyst Revenue per product category in {country}, per quarter, with the change from the
  quarter before.
- @S extractor Keys: first_error, error_count, components.\n\n{log}
- @S extractor Keys: exception, file, line.\n\n{trace}
"""
