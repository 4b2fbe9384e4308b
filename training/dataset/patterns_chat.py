"""Chat patterns: one bullet per pattern, filled from prompt_slots and prompt_contexts.

{name} takes a value of the list "name", {n:3-9} a number from 3 to 9; a slot which comes
twice keeps its value, and {city2} takes another value of the list "city".
"""

RAW = r"""
- In one word, what is {capq}?
- Is {ynq}? Answer yes or no.
- what year {yearq}? just the year pls
- How many {countq}?
- Give me a one-sentence definition of {sci}.
- Explain {topic} to {audience}.
- Write a tweet about {hobby}. Max 280 characters.
- List {n:3-12} interesting facts about the {animal}.
- Translate into {hlang}: "{phrase}"
- Summarise this in one sentence:\n\n{article}
- Write a short email to my boss saying that I will be out {when} because I have {pet} to take to
  the vet.
- Make a table comparing {city} and {city2} by climate, cost of living, food and nightlife.
- Tell me a bedtime story about {hero} for a child aged {n:3-9}.
- Write a five-paragraph essay arguing for {issue}.
- give me a step by step plan to start with {hobby} as a total beginner, 8 weeks
- Which is better for a weekend break, {city} or {city2}? Pick one, no explanation.
- What's a synonym for "{word}"?
- Use the word "{word}" in a sentence.
- What does "{idiom}" mean?
- Where does the expression "{idiom}" come from, and how has its use changed? Tell me as much as
  you can.
- Write a haiku about {theme}.
- Write a poem of four stanzas about {theme}, with rhymes.
- Fix the grammar: {badsent}
- Correct this sentence and explain every mistake in detail: {badsent}
- Suggest a name for {biz}. Only one.
- Brainstorm {n:15-25} names for {biz}.
- Write a slogan for {product}.
- Write a product description for {product}, around {n:60-120} words.
- I'm feeling {emotion} today. Any advice?
- hey im {emotion}, can u just say something nice to me
- What are the pros and cons of {issue}?
- Both sides of the debate on {issue} please, in two paragraphs of equal length, then your own
  conclusion.
- My problem: {problem}. What should I do?
- Draft a polite but firm letter about this: {problem}.
- Recipe for {dish}, serves {n:2-8}.
- How long does {dish} keep in the fridge? Just a number of days.
- what goes well with {food}
- Give me a 7-day dinner plan that uses {food} at least three times, with a shopping list at the
  end.
- Is {food} healthy?
- Sort these alphabetically: {animal}, {animal2}, {food}, {city}, {name}
- On what continent is {country}?
- Capital of {country}?
- Write a travel brochure for {country}, with sections on nature, culture, food and practical
  tips.
- Give me 3 words that describe {city}.
- Plan {trip}.
- Who was {person}?
- Write a biography of {person} covering childhood, work and legacy.
- In which century was {person} born?
- Write an imaginary interview with {person}, at least ten questions and answers.
- Tell the story of {hist} in chronological order with the main dates.
- Why did {hist} matter? Two sentences.
- Write a diary entry by someone who witnessed {hist}.
- Write a job posting for a {job} at a company of {n:10-90} people.
- List five interview questions for a {job}.
- I have an interview as a {job} {when}. Run me through the likely questions with a model answer
  for each.
- Write a cover letter for a {job} position. I'm {name} and I have {n:2-20} years of experience.
- What does a {job} earn compared to a {job2}: more, less or about the same?
- A day in the life of a {job}, hour by hour.
- Write a LinkedIn headline for a {job}.
- Write a toast for {event}, about one minute long.
- Checklist for organising {event}.
- Write an invitation to {event} {when}, hosted by {name}.
- Text message to {name} to say I'm running {n:5-40} minutes late.
- Write an apology to {name} because I forgot about {event}.
- Thank-you note to {name} for {product}. Keep it to three sentences.
- Write a one-star review of {product}, funny.
- Positive or negative? One word.\n\n"{review}"
- Reply to this customer review as the shop owner:\n\n"{review}"
- Pull out every complaint in this review as a bullet list:\n\n{review}
- How many stars from 1 to 5 would this reviewer give? Only the digit.\n{review}
- {email}\n\nWhat is the most important date in this email?
- Answer this email on my behalf and agree to everything:\n\n{email}
- tl;dr\n\n{email}
- Read the mail below and make a to-do list with deadlines from it.\n\n{email}
- Rewrite the following email so that it sounds much more formal:\n\n{email}
- Give the following article a headline of at most {n:5-9} words.\n\n{article}
- Write {n:4-7} quiz questions with answers on this text:\n{article}
- {article}\n\nAccording to the text, who is unhappy about it, and why?
- How many numbers are mentioned in this text? Just tell me the count.\n\n{article}
- Rewrite this news item for {audience}, in simple words and with a bit more
  background:\n\n{article}
- Translate the first sentence into {hlang}.\n\n{article}
- Write a letter to the editor of about 200 words reacting to this:\n\n{article}
- What's the mood of this story? one word\n\n{story}
- Continue the story for at least six more paragraphs.\n\n{story}
- Retell this story from another character's point of view:\n\n{story}
- Suggest a title.\n\n{story}
- Action items per person, please:\n\n{minutes}
- Turn these notes into proper minutes with headings, decisions and open points.\n\n{minutes}
- From the notes: what was decided? One line.\n\n{minutes}
- Explain the rules of {sport}.
- How many players does a {sport} side have on court, field or water?
- Give me a beginner training plan for {sport}, four weeks, three sessions each, in a table.
- Tell me a joke about {animal}s.
- Write a limerick about {name} who loves {food}.
- Write a dialogue between a {job} and a {job2} stuck in a lift. About 20 lines.
- Write the opening sentence of a {genre} novel set in {city}.
- Write the first chapter of a {genre} book starring {hero}.
- Outline a {genre} film with three acts, using {hero} as the main character.
- Give me a six-word story about {theme}.
- Summarise the plot of {book}.
- Who wrote {book}?
- Compare {book} and {book2}: themes, style, main characters, and what readers today may take from
  each.
- Would {book} suit a reader aged {n:9-16}? yes/no and one reason
- How do I get rid of {body}?
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
- Rate my plan from 1 to 10, number only: I want to learn {skill} in {n:2-30} days by practising
  {hobby}.
- How is {item} made?
- Where was {item} first produced? Country only.
- Write an advert script for radio, 30 seconds, for {biz}.
- Write a business plan for {biz} in {city}: market, costs, marketing, risks and a first-year
  timeline.
- Fill in the blank with a single word: "She was so {emotion} that she decided to take up ____
  with {name}."
- Give me the opposite of "{word}" and of "{word2}".
- Define these three words, one line each: {word}, {word2}, {word3}.
- What rhymes with {item}? Give me {n:4-9}.
- Write an acrostic for the name {name}.
- Describe {theme} without using the sense of sight, one paragraph.
- Role-play: you're {hero} and I've just knocked on your door in {city}. Say your first line.
- If you could only eat {food} or {dish} for a year, which one and why?
- Convince {audience} to try {hobby} in three sentences.
- Which of these doesn't belong: {animal}, {animal2}, {item}, {animal3}?
- Make a weekly chore schedule for {n:3-6} flatmates named {name}, {name2} and others, as a table
  by day.
- I'm moving from {city} to {country} with {pet}. What do I have to think about, from six months
  before until the first week there?
- help me decide, {hobby} or {hobby2}?? i only got {n:2-6} hrs a week
- Give a fun fact about {country}.
- FAQ page for {biz}: ten questions and answers.
"""
