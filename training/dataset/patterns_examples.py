"""Patterns whose earlier turns show by example how short the answers are meant to be.

Labels, look-ups and one-line rewrites, the way programs and hurried people ask: the same
question again and again. See patterns_chat for the notation of the slots.
"""

CHAT = r"""
- Label each message positive or negative. "The soup was cold and the waiter rude." @A negative @U
  "Best holiday we ever had, thank you!" @A positive @U "It broke after two days." @A negative @U
  "I bought {product} and would buy it again."
- Which mood? happy, sad or angry. I failed my driving test again. @A sad @U They cancelled my
  flight and nobody picks up the phone!! @A angry @U We got the keys to our new flat today! @A
  happy @U I'm {emotion} and don't know why.
- Name the capital. France @A Paris @U Japan @A Tokyo @U Brazil @A Brasília @U And {country}?
- Continent? Germany @A Europe @U China @A Asia @U Nigeria @A Africa @U {country}, which one?
- Give the opposite. hot @A cold @U early @A late @U generous @A stingy @U opposite of {word}
- One synonym each. big @A large @U quick @A fast @U scared @A afraid @U synonym for {word}
- Plural please. child @A children @U box @A boxes @U wolf @A wolves @U plural of {item}
- Translate single words into {hlang}, nothing else. house @A Haus @U water @A Wasser @U
  night @A Nacht @U the word {item}
- English to French. Good morning @A Bonjour @U Thank you very much @A Merci beaucoup @U How much is
  it? @A Combien ça coûte ? @U {phrase}
- English to Spanish. Good night @A Buenas noches @U I am tired @A Estoy cansado @U The bill, please
  @A La cuenta, por favor @U "{phrase}" in Spanish
- Which language is it? Bonjour tout le monde @A French @U Guten Morgen @A German @U Buona sera @A
  Italian @U the language of "hasta la vista, {name}"
- Sort the ticket into billing, delivery, returns or other. Where is my parcel? @A delivery @U I was
  charged twice @A billing @U The jacket is too small @A returns @U Ticket: I have a question about
  {order}, it came late.
- Urgent? yes or no. Server room is on fire @A yes @U Can we move lunch to Friday? @A no @U Payment
  page is down for all customers @A yes @U My {device} needs a new sticker
- Spam or not spam. You won a free phone, click here @A spam @U Meeting moved to 3 pm @A not spam @U
  Cheap pills, no prescription @A spam @U Hi {name}, are you coming {when}?
- Is it food? yes/no. bread @A yes @U gravel @A no @U cheese @A yes @U what about {item}
- Animal, plant or thing? oak @A plant @U hammer @A thing @U salmon @A animal @U the {animal}
- Pick the topic: sports, politics, science or culture. The striker scored twice in extra time. @A
  sports @U Parliament votes on the new budget today. @A politics @U Researchers sequence the wheat
  genome. @A science @U A talk about {person} opens {when}.
- Take out the name. "Call Peter after lunch" @A Peter @U "The report by Linda is late" @A Linda @U
  "Ask Ravi for the keys" @A Ravi @U "We will meet {name} {when}"
- Extract the city. I live in Berlin with my dog @A Berlin @U Flights to Rome are cheap @A Rome @U
  She moved away from Boston @A Boston @U We had {dish} in {city}
- Formal or informal? Dear Sir or Madam @A formal @U hey whats up @A informal @U I remain yours
  faithfully @A formal @U yo {name} u there?
- First letter only. banana @A B @U zebra @A Z @U first letter of {animal}
- How many words? I like tea @A 3 @U The sun is warm today @A 5 @U Go home @A 2 @U {phrase}
- True or false? Fish live in water. @A true @U The moon is made of cheese. @A false @U Two halves
  make a whole. @A true @U {country} is a continent.
- Yes or no. Is the earth flat? @A No @U Is ice cold? @A Yes @U Do birds have wings? @A Yes @U Is
  {ynq}?
- Just the year. When did World War I start? @A 1914 @U When did Columbus reach America? @A 1492 @U
  When {yearq}?
- Numbers only. How many days are in a week? @A 7 @U How many months are in a year? @A 12 @U How
  many {countq}?
- Name only. Who wrote Hamlet? @A William Shakespeare @U Who wrote Les Misérables? @A Victor Hugo @U
  Who wrote {book}?
- In a word or two. What is the capital of Spain? @A Madrid @U What is the largest planet? @A
  Jupiter @U What is {capq}?
- Quiz, answer with one word. The fastest land animal @A Cheetah @U The king of the jungle @A Lion
  @U A thing that you find in {room}
- Which team size? football @A 11 @U ice hockey @A 6 @U how many for {sport}
- Indoor or outdoor? chess club @A indoor @U sailing @A outdoor @U pottery @A indoor @U how about
  {hobby}
- Healthy or not? deep-fried chips @A not healthy @U steamed broccoli @A healthy @U candy floss @A
  not healthy @U a plate of {food}
- Sweet or savoury? apple pie @A sweet @U beef stew @A savoury @U ice cream @A sweet @U {dish}, which?
- Emoji for it? birthday @A 🎂 @U rain @A 🌧️ @U love @A ❤️ @U emoji for {animal}
- Warm or cold place? Iceland @A cold @U Egypt @A warm @U Greenland @A cold @U {country} in general
- Fix the spelling. recieve @A receive @U definately @A definitely @U seperate @A separate @U
  tommorow, {name}
- Correct the sentence. She go to school every day. @A She goes to school every day. @U I has two
  cats. @A I have two cats. @U {badsent}
- Correct it, nothing else: We was late yesterday. @A We were late yesterday. @U He don't like tea. @A
  He doesn't like tea. @U Now this: {badsent}
- Make it polite. Give me the report. @A Could you please send me the report? @U Shut the door. @A
  Would you mind closing the door? @U Tell me {when} about {problem}
- Make it shorter. I would like to inform you that we have received your letter. @A We received your
  letter. @U It is necessary that you arrive before nine. @A Arrive before nine. @U I am writing to
  you because {problem} and it has been going on for a long time.
- One-line definitions. gravity @A The force that pulls objects towards each other. @U democracy @A A
  system in which the people choose their leaders. @U and {sci}
- Dictionary style, one line. brave @A Ready to face danger or pain. @U lazy @A Not willing to work.
  @U define {word}
- What does it mean, in short? piece of cake @A Something very easy. @U hit the sack @A To go to
  bed. @U meaning of {idiom}
- Finish the line. Roses are red, @A violets are blue. @U An apple a day @A keeps the doctor away. @U
  Better late @A than never. @U {name} always says: no pain,
- Who was it, in one sentence? Mozart @A An Austrian composer of the eighteenth century. @U Cleopatra
  @A The last queen of ancient Egypt. @U {person}, one sentence too
- One fact each, short. cats @A They sleep up to sixteen hours a day. @U elephants @A They are the
  largest land animals. @U fact about {animal}
- Where is it from? sushi @A Japan @U pizza @A Italy @U tacos @A Mexico @U where is {dish} from
- Headline writer. Rain ruins the harvest in the north. @A Northern Harvest Lost to Rain @U The mayor
  opens a new bridge. @A Mayor Opens New Bridge @U {name} from {city} wins a prize for {hobby}.
- Subject line for a mail that says: I am ill today. @A Sick today @U We need more chairs. @A Request
  for more chairs @U One that says: {problem}
- Tag it with one word. How to bake bread at home @A baking @U Ten stretches for your back @A fitness
  @U Cheap flights in May @A travel @U First steps in {hobby}
- Rate 1 to 5, digit only. Awful, never again. @A 1 @U Good, but a bit loud. @A 4 @U Perfect in every
  way! @A 5 @U Quite nice {product}, came {when}.
- Adult, teen or child? lego set @A child @U mortgage advice @A adult @U school prom @A teen @U book
  about {hobby}
- Does it need electricity? candle @A no @U fridge @A yes @U bicycle @A no @U {product}
- Cheap or expensive? gold ring @A expensive @U paper cup @A cheap @U sports car @A expensive @U
  {product}, your guess
- Reply as the booking bot with OK or FULL. Table for two on Monday @A OK @U Table for forty on
  Saturday @A FULL @U Table for {n:2-9} {when}
- Voice assistant, short. Turn on the light. @A Light on. @U Stop the music. @A Music stopped. @U Set
  an alarm for {n:5-11} please, and call {name}.
- Chat with a friend. hey @A hey! @U u home? @A yep @U bored @A same lol @U wanna do {hobby} later?
- Rhyme, one word. cat @A hat @U moon @A spoon @U light @A night @U rhyme for {item}
- Colour? grass @A green @U snow @A white @U sky @A blue @U colour of {food}
- Past tense. go @A went @U sing @A sang @U bring @A brought @U past tense of "{name} eats {item}"
- Is this a question? Where are you @A yes @U I am here @A no @U {phrase}, is it one
- Yes or no, house rules. Can I smoke inside? @A No @U Can I park in the yard? @A Yes @U Can I
  bring {pet}?
- @S support How long does standard delivery take? @A 3 to 5 working days. @U What does it cost? @A
  4.95, free above 50. @U And express? @A 1 working day for 9.95. @U how many days do I have to
  return {order}?
- @S voice What's two plus two? @A Four. @U What day comes after Monday? @A Tuesday. @U How many
  legs has a spider? @A Eight. @U And the {animal}, how many?
- @S travel Currency in Japan? @A The yen. @U In Switzerland? @A The Swiss franc. @U In {country}?
- @S kitchen Oven for pizza? @A 250 °C. @U For cookies? @A 180 °C. @U For {dish}?
- @S editor Title for a text on bees. @A The Busy Life of Bees @U On rain. @A After the Rain @U On
  {theme}.
"""

MATH = r"""
- Answers only. 7 + 8 @A 15 @U 12 + 30 @A 42 @U 25 + 26 @A 51 @U {a:11-99} + {b:11-99}
- Just results: 9 - 4 @A 5 @U 60 - 18 @A 42 @U 100 - 37 @A 63 @U {a:60-99} - {b:11-59}
- Times tables. 6 x 7 @A 42 @U 9 x 8 @A 72 @U 12 x 5 @A 60 @U {a:3-19} x {b:3-12}
- Division, result only. 56 / 7 @A 8 @U 81 / 9 @A 9 @U 144 / 12 @A 12 @U {a:20-99} / {b:2-9}
- Prime? yes or no. 7 @A yes @U 21 @A no @U 29 @A yes @U 91 @A no @U is {a:30-399} one
- Even or odd? 4 @A even @U 17 @A odd @U 120 @A even @U {a:31-999}
- Bigger one? 3 or 8 @A 8 @U 45 or 54 @A 54 @U -2 or -9 @A -2 @U {a:100-999} or {b:100-999}
- Square it. 3 @A 9 @U 7 @A 49 @U 11 @A 121 @U now {a:12-40}
- Square root, nearest whole number. 50 @A 7 @U 80 @A 9 @U 120 @A 11 @U of {a:130-900}
- Percent of, number only. 10% of 50 @A 5 @U 25% of 80 @A 20 @U 50% of 36 @A 18 @U
  {p:5-95}% of {a:40-400}
- As a percentage. 1/2 @A 50% @U 1/4 @A 25% @U 3/5 @A 60% @U {a:1-9}/{b:10-20}
- As a decimal. 1/2 @A 0.5 @U 3/4 @A 0.75 @U 1/8 @A 0.125 @U {a:1-9}/{b:11-40} as one
- Round to tens. 47 @A 50 @U 132 @A 130 @U 8 @A 10 @U round {a:201-989}
- Double it. 4 @A 8 @U 35 @A 70 @U 120 @A 240 @U double of {a:41-499}
- Half of it. 10 @A 5 @U 64 @A 32 @U 90 @A 45 @U half of {a:100-998}
- Next number? 2, 4, 6 @A 8 @U 5, 10, 15 @A 20 @U 1, 2, 4, 8 @A 16 @U {a:3-9}, {b:10-16}, 17
- Divisible by 3? 9 @A yes @U 10 @A no @U 27 @A yes @U check {a:100-999}
- Is it right? yes or no. 2 + 2 = 4 @A yes @U 3 x 5 = 18 @A no @U 40 / 8 = 5 @A yes @U
  {a:6-19} x {b:6-12} = {c:60-200}
- Minutes to seconds. 1 @A 60 @U 3 @A 180 @U 10 @A 600 @U {a:4-45} minutes
- Metres to centimetres. 1 @A 100 @U 2.5 @A 250 @U 0.4 @A 40 @U {a:2-90} metres
- Roman numerals. 4 @A IV @U 9 @A IX @U 40 @A XL @U write {a:11-99}
- Binary. 2 @A 10 @U 5 @A 101 @U 8 @A 1000 @U {a:9-60} in binary
- Solve for x, answer only. x + 2 = 5 @A x = 3 @U 2x = 14 @A x = 7 @U x - 9 = 1 @A x = 10 @U
  {a:2-6}x = {b:12-60}
- Derivative, result only. x^2 @A 2x @U 5x @A 5 @U x^4 @A 4x^3 @U {fx}
- How many sides? triangle @A 3 @U pentagon @A 5 @U octagon @A 8 @U and a {shape}
- Formula only. area of a rectangle @A A = l × w @U perimeter of a square @A P = 4s @U area or volume of a
  {shape}
- Positive or negative? -3 x 4 @A negative @U -2 x -5 @A positive @U 6 x 7 @A positive @U
  -{a:2-99} x {b:2-99}
- Multiple choice, letter only. 2 + 3 = ? A) 4 B) 5 C) 6 @A B @U 6 x 6 = ? A) 36 B) 32 C) 30 @A A @U
  {a:11-49} + {b:11-49} = ? A) {c:22-50} B) {d:51-80} C) {e:81-98}
- Number in words. 12 @A twelve @U 45 @A forty-five @U 90 @A ninety @U {a:21-99} in words
- Change from a 20? 5.00 @A 15.00 @U 12.50 @A 7.50 @U 19.99 @A 0.01 @U {a:2-18}.{b:10-99}
- Which century? 1805 @A 19th @U 1492 @A 15th @U 2010 @A 21st @U {a:1100-1999}
- Fraction in lowest terms. 2/4 @A 1/2 @U 6/9 @A 2/3 @U 10/25 @A 2/5 @U {a:4-20}/{b:24-48} lowest
- @S tutor Quick drill, only numbers. 8 x 8? @A 64 @U 9 x 6? @A 54 @U 7 x 7? @A 49 @U
  {a:4-12} x {b:4-12}?
- Say in one sentence. What is a triangle? @A A shape with three straight sides. @U What is a half? @A
  One of two equal parts. @U What is {mconcept}?
- One line each. Who was Pythagoras? @A A Greek thinker known for a theorem on right triangles. @U And
  {mathist}?
- Unit check, number only. How many inches are in a foot? @A 12 @U How many grams are in a kilogram?
  @A 1000 @U How many {unitq}?
"""  # noqa: RUF001

CODE = r"""
- Which language? print("hi") @A Python @U console.log("hi") @A JavaScript @U System.out.println("hi");
  @A Java @U fmt.Println("{name}")
- File extension? Python @A .py @U JavaScript @A .js @U Markdown @A .md @U for {plang}
- Output only. print(1 + 1) @A 2 @U print("a" * 3) @A aaa @U print({pyexpr})
- Big-O only. binary search @A O(log n) @U reading an array element @A O(1) @U nested loops @A
  O(n^2) @U {bigo}
- Complexity, one term. merge sort @A O(n log n) @U linear search @A O(n) @U and {algo}
- What does it stand for? HTML @A HyperText Markup Language @U CPU @A Central Processing Unit @U SQL @A
  Structured Query Language @U {acro}
- Port number? HTTP @A 80 @U FTP @A 21 @U for {port}
- Command only. list files @A ls @U current folder @A pwd @U make a folder called src @A mkdir src @U
  {shell}
- git command only. see the history @A git log @U new branch called dev @A git switch -c dev @U stage
  everything @A git add -A @U {gitq}
- SQL only, table users. all rows @A SELECT * FROM users; @U how many @A SELECT COUNT(*) FROM users; @U
  the newest one named {name}
- Regex only. digits @A \d+ @U a word @A \w+ @U {rx}
- Error type? x = [1]; x[5] @A IndexError @U int("a") @A ValueError @U the type in "{errmsg}"
- Frontend or backend? CSS @A frontend @U database index @A backend @U button colour @A frontend @U
  {apires} table
- Bug, feature or question? App crashes on start @A bug @U Please add dark mode @A feature @U How do I
  log in? @A question @U Ticket for {app}: it forgets my settings
- Severity: low, medium, high. Typo in footer @A low @U Passwords stored in plain text @A high @U
  Slow search page @A medium @U {errmsg} in production
- Class name? stores users @A UserStore @U reads files @A FileReader @U something for {apires}
- Better variable name? x = age of user @A user_age @U n = number of rows @A row_count @U v = price
  of {product}
- Compiled or interpreted? C @A compiled @U Ruby @A interpreted @U what about {plang}
- LIFO or FIFO or neither? stack @A LIFO @U queue @A FIFO @U a {ds}
- True or false in Python? 1 == 1.0 @A True @U "" == None @A False @U bool([0]) @A True @U
  len("{name}") > {n:2-6}
- HTTP status code. OK @A 200 @U not found @A 404 @U created @A 201 @U too many requests from {city}
- Method? read one book @A GET @U delete a user @A DELETE @U add a comment @A POST @U change one of the
  {apires}
- Does it compile? yes/no. int x = 3; @A yes @U int y = ; @A no @U float z = {a:1-99}.5f;
- Import line only. random numbers @A import random @U JSON @A import json @U regular expressions @A
  import re @U dates, for {app}
- One-line comment for the code. i += 1 @A # next item @U return a + b @A # sum of both @U
  total = price * {n:2-9}
- Commit message. fix typo in docs @A Fix typo in docs @U added tests for parser @A Add parser tests
  @U changed colours of {app} a bit
- Python one-liners only. sum of a list @A sum(xs) @U longest word @A max(words, key=len) @U one that
  {ptask}
- Lint verdict, ok or bad. def f(x): return x @A ok @U if x == None: pass @A bad @U def g(a=[]):
  return a + [{n:2-99}]
- JSON key and value, nothing else. name is Bob @A {"name": "Bob"} @U age is 7 @A {"age": 7} @U
  city is {city}
- Tool for it, one word. version control @A git @U containers @A Docker @U package install in Python
  @A pip @U unit tests in {plang}
- In one sentence. What is a variable? @A A name that refers to a value. @U What is a loop? @A Code
  that repeats. @U What is {concept}?
- One sentence each. What is a database? @A A place where data is stored and queried. @U What is
  {tool}?
- @S coder Extension of a C header? @A .h @U Null in Python? @A None @U Comment sign in {plang}?
- @S reviewer Verdict only. +x = 1 @A approve @U +eval(user_input) @A reject @U +timeout = {n:5-90}
- @S analyst Column type for a price? @A NUMERIC(10, 2) @U For a birthday? @A DATE @U For the name
  of {apires}?
"""
