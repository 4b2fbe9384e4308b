"""Patterns with earlier turns: "@A" starts an answer, "@U" the user's next message.

The last message is the prompt. See patterns_chat for the notation of the slots.
"""

CHAT = r"""
- What is {sci}? @A It is a basic idea in science. In short, it describes how part of nature
  behaves, and you can see its effects in daily life. @U ok and in one sentence for a {age} year
  old, still {sci}
- I want to visit {country}. @A Great choice. {country} has beautiful landscapes and friendly
  people. Are you more into cities or nature? @U Nature, and I have {n:4-12} days in {season}.
  Give me a day-by-day plan.
- Write a slogan for {biz}. @A "Made with care, close to you." @U Hmm too boring @A "Come for a
  look, stay for a smile." @U better! now give me {n:6-15} more in that style
- Translate "{phrase}" into {hlang}. @A Sure. Would you like the formal or the informal version?
  @U The formal one, and then say it in {hlang2} as well.
- Tell me about {person}. @A {person} is remembered as one of the most influential people in their
  field, and is still quoted today. @U when was {person} born
- Can you help me write a message to {name}? @A Of course. What is it about? @U {problem} @A I
  see. Should it be friendly or firm? @U Friendly. Write it to {name} in under {n:40-90} words.
- Tell me a story about {hero}. @A Once upon a time there lived {hero}, at the edge of a small
  town, and nobody knew what happened there after dark. @U What happened next? @A One night, a
  knock came at the door. On the step lay a parcel with no name, and it was humming. @U Go on and
  finish it, the story should end with {theme}.
- {article}\n\nWhat is this text about? @A It reports on a local change, the reasons behind it and
  how people reacted. @U Write {n:3-6} bullet points with the key figures from it.
- Read this: {story} @A Thank you, it's a touching little story. What would you like to know? @U
  Write an analysis of its main character and ending for {audience}.
- What's the capital of {country}? @A Would you like just the name, or some background as well? @U
  just the name of the capital of {country}
- Let's debate {issue}. I'm for it. @A Then I take the other side: it sounds good, but the costs
  and side effects are often ignored. @U Fine, give me your {n:3-5} strongest arguments against
  {issue}, with details.
- @S support Hello, I have a question about {order}. @A Hello, and welcome to Brindle & Crane.
  What would you like to know? @U Is it waterproof? @A I'm afraid I don't have this detail. An
  agent can check it for you. @U Forget it. What would shipping {order} cost me if it's {n:20-90}
  euros?
"""

MATH = r"""
- What is {a:12-60} times {b:3-9}? @A Let me work it out by splitting the first number into tens
  and ones. @U I don't need the steps, just {a} x {b}.
- What's a fraction? @A A fraction describes part of a whole, for example 1/2 is one of two equal
  parts. @U And how do I add {a:1-5}/{b:6-9} and {c:1-5}/{d:10-14}? Slowly please.
- Solve x^2 = {a:10-99}. @A x = sqrt({a}) or x = -sqrt({a}). @U As a decimal, sqrt({a}) please,
  two digits.
- Is {a:101-499} prime? @A To check, I divide it by all primes up to its square root. @U and
  {b:500-999}? yes/no
- I'm preparing a quiz on {mtopic}. @A Nice. For which age group? @U {n:9-15} year olds. @A
  Multiple choice or open questions? @U Multiple choice, ten questions on {mtopic} with four
  options each and a key.
- @S tutor I have to prove that {proof} @A Good. What have you tried so far? Start by writing down
  what is given. @U i dont know where to begin, show me the whole proof that {proof}
"""

CODE = r"""
- Here's my code:\n\n{pysnip} @A I've read it. What would you like me to do with it? @U rate it
  1-10, number only, assume it's for {app}
- Explain {algo}. @A It solves a common task by working through the data in a fixed order until
  the result is found. @U How fast is {algo} in the worst case? big-O only
"""
