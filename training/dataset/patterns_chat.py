"""Chat patterns: one bullet per pattern, filled from prompt_slots and prompt_contexts.

{name} takes a value of the list "name", {n:3-9} a number from 3 to 9; a slot which comes
twice keeps its value, and {city2} takes another value of the list "city".
"""

RAW = r"""
- In one word, what is {capq}?
- Is {ynq}? Answer yes or no.
- what year {yearq}? just the year pls
- Give me a one-sentence definition of {sci}.
- Explain {topic} to {audience}.
- Summarise this in one sentence:\n\n{article}
- Tell me a bedtime story about {hero} for a child aged {n:3-9}.
- Write a five-paragraph essay arguing for {issue}.
- Use the word "{word}" in a sentence.
- What does "{idiom}" mean?
- Where does the expression "{idiom}" come from, and how has its use changed? Tell me as much as
  you can.
- Fix the grammar: {badsent}
- Correct this sentence and explain every mistake in detail: {badsent}
- Write a product description for {product}, around {n:60-120} words.
- What are the pros and cons of {issue}?
- My problem: {problem}. What should I do?
- Draft a polite but firm letter about this: {problem}.
- Give me a 7-day dinner plan that uses {food} at least three times, with a shopping list at the
  end.
- Is {food} healthy?
- On what continent is {country}?
- Write a travel brochure for {country}, with sections on nature, culture, food and practical
  tips.
- Give me 3 words that describe {city}.
- Write a biography of {person} covering childhood, work and legacy.
- In which century was {person} born?
- Write an imaginary interview with {person}, at least ten questions and answers.
- Why did {hist} matter? Two sentences.
- Write a diary entry by someone who witnessed {hist}.
- List five interview questions for a {job}.
- Write a cover letter for a {job} position. I'm {name} and I have {n:2-20} years of experience.
- A day in the life of a {job}, hour by hour.
- Write a LinkedIn headline for a {job}.
- Checklist for organising {event}.
- Write an invitation to {event} {when}, hosted by {name}.
- Write an apology to {name} because I forgot about {event}.
- Thank-you note to {name} for {product}. Keep it to three sentences.
- Positive or negative? One word.\n\n"{review}"
- {email}\n\nWhat is the most important date in this email?
- Read the mail below and make a to-do list with deadlines from it.\n\n{email}
- Give the following article a headline of at most {n:5-9} words.\n\n{article}
- Rewrite this news item for {audience}, in simple words and with a bit more
  background:\n\n{article}
- Translate the first sentence into {hlang}.\n\n{article}
- Write a letter to the editor of about 200 words reacting to this:\n\n{article}
- What's the mood of this story? one word\n\n{story}
- Continue the story for at least six more paragraphs.\n\n{story}
- Explain the rules of {sport}.
- How many players does a {sport} side have on court, field or water?
- Give me a beginner training plan for {sport}, four weeks, three sessions each, in a table.
- Tell me a joke about {animal}s.
- Write a dialogue between a {job} and a {job2} stuck in a lift. About 20 lines.
- Write the opening sentence of a {genre} novel set in {city}.
- Write the first chapter of a {genre} book starring {hero}.
- Outline a {genre} film with three acts, using {hero} as the main character.
- Give me a six-word story about {theme}.
- Summarise the plot of {book}.
- Who wrote {book}?
- Compare {book} and {book2}: themes, style, main characters, and what readers today may take from
  each.
- When should somebody with {body} see a doctor? Brief answer please.
- my {device} wont turn on what do i do
- Write a troubleshooting guide for a {device}, from the simple checks to the difficult ones.
- How often should I replace a {device}?
- Give me one tip for {habit}.
- Create a 30-day challenge for {habit}, with one task per day.
- Ways to decorate {room} on a budget?
- I've {n:100-900} euros and want to redo {room}. Make me a budget broken down by item.
- What should I pack for {city} in {season}?
- Best month to visit {country}?
- Teach me {skill}: write a complete mini course with five lessons, exercises and a final test.
- Name one book or course for learning {skill}.
- How is {item} made?
- Write a business plan for {biz} in {city}: market, costs, marketing, risks and a first-year
  timeline.
- Write an acrostic for the name {name}.
- I'm moving from {city} to {country} with {pet}. What do I have to think about, from six months
  before until the first week there?
- Give a fun fact about {country}.
"""
