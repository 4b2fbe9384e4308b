"""Patterns with earlier turns: "@A" starts an answer, "@U" the user's next message.

The last message is the prompt. See patterns_chat for the notation of the slots.
"""

CHAT = r"""
- Hi, I'm {name}. @A Hello {name}, nice to meet you. What can I do for you today? @U I'm planning
  {event}. @A That sounds fun. How many guests do you expect, and is there a budget? @U About
  {n:10-80} people and {m:300-900} euros. Write me the whole plan with a timeline and costs.
- What is {sci}? @A It is a basic idea in science. In short, it describes how part of nature
  behaves, and you can see its effects in daily life. @U ok and in one sentence for a {age} year
  old, still {sci}
- Recommend me a hobby. @A How about {hobby}? It's easy to start, costs little and you meet
  people. @U Not my thing. @A Then {hobby2} may suit you better: you can do it at your own pace.
  @U Which one is cheaper, {hobby} or {hobby2}? One word.
- I want to visit {country}. @A Great choice. {country} has beautiful landscapes and friendly
  people. Are you more into cities or nature? @U Nature, and I have {n:4-12} days in {season}.
  Give me a day-by-day plan.
- Write a slogan for {biz}. @A "Made with care, close to you." @U Hmm too boring @A "Come for a
  look, stay for a smile." @U better! now give me {n:6-15} more in that style
- Translate "{phrase}" into {hlang}. @A Sure. Would you like the formal or the informal version?
  @U The formal one, and then say it in {hlang2} as well.
- Tell me about {person}. @A {person} is remembered as one of the most influential people in their
  field, and is still quoted today. @U when was {person} born
- Tell me about {person}. @A {person} changed how people thought about their field. Would you like
  to hear about the early years or about the main work? @U Everything please, I'm writing a school
  report on {person}, {n:300-600} words.
- My {device} is broken. @A I'm sorry to hear that. What happens when you switch it on? @U nothing
  @A Is the power light on, and have you tried another socket? @U light is on but the {device}
  stays dead. what next
- Can you help me write a message to {name}? @A Of course. What is it about? @U {problem} @A I
  see. Should it be friendly or firm? @U Friendly. Write it to {name} in under {n:40-90} words.
- Tell me a story about {hero}. @A Once upon a time there lived {hero}, at the edge of a small
  town, and nobody knew what happened there after dark. @U What happened next? @A One night, a
  knock came at the door. On the step lay a parcel with no name, and it was humming. @U Go on and
  finish it, the story should end with {theme}.
- Should I get {pet}? @A It depends on your time, space and money. Tell me a bit about your home.
  @U I rent a flat in {city} and work full time. @A Then think about who looks after the animal
  during the day. @U so {pet} in {city}, yes or no?
- {article}\n\nWhat is this text about? @A It reports on a local change, the reasons behind it and
  how people reacted. @U Write {n:3-6} bullet points with the key figures from it.
- Read this: {story} @A Thank you, it's a touching little story. What would you like to know? @U
  Write an analysis of its main character and ending for {audience}.
- I'm {emotion}. @A I'm sorry, that sounds hard. Do you want to talk about what brought it on? @U
  it's mostly because {problem} @A That would weigh on anybody. What have you tried so far? @U
  nothing yet. give me {n:2-5} small things i can do today
- Do you know {book}? @A Yes, it's a classic. Have you read it? @U Only half of {book}. Tell me
  how it ends, in two sentences.
- What's the capital of {country}? @A Would you like just the name, or some background as well? @U
  just the name of the capital of {country}
- Give me a dinner idea. @A What about {dish}? @U I had that yesterday. @A Then maybe something
  light with {food}. @U Great, write out the recipe with {food} for {n:2-6} people.
- Let's debate {issue}. I'm for it. @A Then I take the other side: it sounds good, but the costs
  and side effects are often ignored. @U Fine, give me your {n:3-5} strongest arguments against
  {issue}, with details.
- @S support Hello, I have a question about {order}. @A Hello, and welcome to Brindle & Crane.
  What would you like to know? @U Is it waterproof? @A I'm afraid I don't have this detail. An
  agent can check it for you. @U Forget it. What would shipping {order} cost me if it's {n:20-90}
  euros?
- @S travel We want to go to {city}. @A Lovely. When do you travel, and who's coming along? @U In
  {season}, two adults and {n:1-3} kids. @A Good. Do you prefer museums or parks? @U Parks. Now
  plan {m:2-4} days in {city} for us.
"""

MATH = r"""
- What is {a:12-60} times {b:3-9}? @A Let me work it out by splitting the first number into tens
  and ones. @U I don't need the steps, just {a} x {b}.
- What's a fraction? @A A fraction describes part of a whole, for example 1/2 is one of two equal
  parts. @U And how do I add {a:1-5}/{b:6-9} and {c:1-5}/{d:10-14}? Slowly please.
- I want to save money. @A Good idea. How much can you put aside every month? @U {a:50-400} a
  month. @A And for how long? @U {n:2-9} years at {p:1-5}% interest. Show me how it grows, year by
  year.
- Solve x^2 = {a:10-99}. @A x = sqrt({a}) or x = -sqrt({a}). @U As a decimal, sqrt({a}) please,
  two digits.
- Give me a riddle with numbers. @A I'm a two-digit number, my digits add up to {a:5-15}, and I'm
  odd. Who am I? @U List all numbers which fit, if the digits add up to {a}.
- Explain {mconcept}. @A It's one of the key ideas of school maths and comes up in many places. @U
  like where? @A For example in physics, in money matters and in statistics. @U Write {n:2-4}
  worked examples on {mconcept} with full solutions.
- Is {a:101-499} prime? @A To check, I divide it by all primes up to its square root. @U and
  {b:500-999}? yes/no
- I'm preparing a quiz on {mtopic}. @A Nice. For which age group? @U {n:9-15} year olds. @A
  Multiple choice or open questions? @U Multiple choice, ten questions on {mtopic} with four
  options each and a key.
- @S tutor I have to prove that {proof} @A Good. What have you tried so far? Start by writing down
  what is given. @U i dont know where to begin, show me the whole proof that {proof}
- @S tutor What's {p:5-45}% of {a:100-900}? @A First find 1 percent: divide {a} by 100. Then
  multiply by {p}. Can you do it? @U no just tell me what {p}% of {a} is
"""

CODE = r"""
- How do I reverse a list in Python? @A Use `items[::-1]` for a copy or `items.reverse()` in
  place. @U and in {plang}?
- I want to build {app}. @A Great. Which language do you know best? @U {plang}. @A Should it run
  in the terminal or have a window? @U Terminal. Write the complete code of {app} in {plang}.
- What is {concept}? @A It's a term from programming. Shall I give a short definition or a longer
  explanation with code? @U short def of {concept}
- I get an error. @A Please paste the message and the code around it. @U {errmsg} @A Thanks. Which
  language and version is it, and what were you doing? @U I just ran my program for {apires}. List
  every possible cause of it and how to check each.
- Write a function that {ptask}. @A ```python\ndef solve(value):\n    result = value\n    return
  result\n``` @U that does nothing. write a correct {plang} version that {ptask}, with tests
- Here's my code:\n\n{pysnip} @A I've read it. What would you like me to do with it? @U rate it
  1-10, number only, assume it's for {app}
- Which database should I use? @A That depends on your data. What are you storing? @U {apires} @A
  A relational database such as PostgreSQL is a safe choice. @U ok write the schema for {apires}
  with {n:3-6} tables and sample rows
- Explain {algo}. @A It solves a common task by working through the data in a fixed order until
  the result is found. @U How fast is {algo} in the worst case? big-O only
- @S coder {pysnip} @A What should I do with this code? @U port it to {plang}
- @S coder I need a regex. @A What should it match? @U {rx} @A Should it match the whole line or a
  part of it? @U Whole line. Explain each part for {rx}, too.
- @S analyst Hi, I'm new in sales. @A Welcome. Which figures do you need? @U {sqlq} @A For which
  country? @U {country}. And explain the query to me so I can change it next time.
- @S reviewer {diff} @A COMMENT\n- [low] Please add a test for the changed line. @U I've added
  one. Does this touch {apires} in any way? yes or no
"""
