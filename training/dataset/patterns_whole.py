"""Patterns that ask for a whole thing: a story, an essay, a guide, a program, a worked lesson.

See patterns_chat for the notation of the slots.
"""

CHAT = r"""
- Write a long short story in the {genre} genre about {hero}, with a beginning, a middle and an end.
- Write a detailed 1000-word story about {theme} set in {city}.
- Write a complete short story about {hero} and {hero2} who meet in {city}. Use dialogue.
- Write a long fairy tale for children in which {hero} travels to {country}.
- Write the opening chapter of a novel about {theme}. Make it long and full of detail.
- Write a ghost story that takes place in {city}, at least eight paragraphs long.
- Write a long letter from {hero} to a friend in {country} about {theme}.
- Write a play in two scenes about {hero} and {theme}, with stage directions.
- Tell me a very long story about {pet} that gets lost in {city} and finds the way home.
- Write a long adventure in {country} where the reader meets {hero}, chapter by chapter.
- Write a detailed essay on {topic}, with an introduction, three arguments and a conclusion.
- Write a 1000-word essay on {hist} and its consequences.
- Write a long and balanced essay: {issue}, the case for and the case against.
- Write a comprehensive article about {country}: geography, history, economy, culture and food.
- Write a complete encyclopedia entry on the {animal}: anatomy, habitat, diet, behaviour and threats.
- Write a detailed report on {topic} for a school project, with headings and a summary at the end.
- Write a detailed biography of {person}, from birth to death, with dates and works.
- Write a long blog post about {hobby} for beginners, with at least seven sections.
- Write a long blog post on {habit}, with personal stories, tips and a closing paragraph.
- Write a complete beginner's guide to {hobby}: equipment, costs, first steps, mistakes, community.
- Write a detailed guide to {skill} with exercises for every day of four weeks.
- Write a full travel guide to {city}, with sights, food, transport, day trips and safety.
- Write a detailed itinerary for ten days in {country}, with morning, afternoon and evening of each day.
- Plan {event} in every detail: schedule, budget, shopping list, roles and a plan B.
- Write a detailed recipe book page for {dish}: history, ingredients, step by step method, variations
  and serving ideas.
- Write a week of dinners for a {diet} family, with a full recipe for each day.
- Write a detailed meal plan for seven days using {food} and {food2}, with recipes and a shopping list.
- Write a business plan for {biz} in {city} with all the usual sections in detail.
- Write a detailed marketing plan for {product}: audience, channels, budget, calendar, measures.
- Write a long sales page for {product}, with headline, story, benefits, questions and answers.
- Write a detailed job handbook for a new {job}, with duties hour by hour and common problems.
- Write a complete cover letter and a CV for a {job} called {name} with eight years of work.
- Write a speech of five minutes about {issue}, for the town hall of {city}.
- Write a long speech for {event}, with jokes, thanks and a toast at the end.
- Write a detailed comparison of {city} and {city2} as places to live, with ten criteria.
- Write a complete review of {book}: plot, characters, style, themes and your verdict.
- Retell {book} in your own words as a long summary, part by part.
- Write an interview with {person}, fifteen questions and long answers.
- Write a long dialogue between {person} and {person2} about {topic}.
- Write a newspaper feature about {hero} from {city}, with quotes from neighbours.
- Write a very long poem about {theme}, at least twelve stanzas.
- Write the lyrics of a song about {theme}: four verses, a chorus and a bridge.
- Write a complete lesson plan on {topic} for a class of thirty children, two hours long.
- Explain {topic} in great detail, from the basics to the open questions.
- Explain everything about {hist}: causes, events, people, results. Write as much as you can.
- Write a detailed history of {item}, from its origins to today.
- Write a guide of at least 800 words on living with {pet}: food, health, training, costs.
- Write a complete fitness plan for someone with {body}, eight weeks, day by day.
- Write detailed advice about this, with all the options, steps and sample letters: {problem}
- Write a detailed description of a day in {city} for a {job}, hour by hour, in rich language.
- Continue this story with five long paragraphs and a surprise at the end:\n\n{story}
- Turn this into a full newspaper article with background and quotes:\n\n{article}
- Tell me about {hobby}. @A With pleasure. {hobby} is loved by many people and easy to begin. What
  would you like to know? @U Everything. Write me a complete guide with all the details you can
  think of.
- I need a story. @A Sure! What should it be about? @U {hero}, in {city}. @A Lovely. How long should
  it be? @U As long as possible, many chapters please.
- I have to write an essay on {topic}. @A I can help. Should I write an outline or the full text? @U
  The full text please, at least two pages.
- @S travel I go to {country} for two weeks with {name}. Write the complete plan, each day in detail,
  with hotels, food and costs.
- @S kitchen Write a full menu with five courses around {food}, each with its complete recipe.
- @S editor Write a long feature article about {biz} in {city}: people, history, a day at work, future.
"""

MATH = r"""
- Write a complete lesson on {mtopic} with definitions, five worked examples and ten exercises with
  solutions.
- Write a long tutorial on {mtopic}, from the basics to hard problems.
- Explain {mconcept} in full detail, with history, formal definition, many examples and applications.
- Write a detailed essay about {mathist}: life, discoveries and influence on mathematics.
- Write a worksheet of fifteen word problems about {thing}, and then the full solution of each.
- Write a detailed comparison of {mvs}, with definitions, examples, a table and exercises.
- Write a full exam on {mtopic}, ten tasks with points, and a model answer for each task.
- Explain {theorem} at length: statement, intuition, a proof, examples, history and uses.
- Write a chapter of a textbook on {mtopic}, at least 1000 words long.
- Write a long story for children which teaches {mtopic}, with {hero} as the main character.
- Teach me {mtopic} over seven days: for each day a lesson, examples and homework with answers.
- Write a detailed guide on using maths for {rlmath}, with formulas and four worked cases.
- Write a report about how {mconcept} is used in science, business and daily life. Be thorough.
- Write a long dialogue between a teacher and a student who doesn't understand {mconcept}.
- Create a study plan for {mtopic}, four weeks, with daily tasks, examples and tests.
- I don't understand {mtopic}. @A No problem, we can go through it. Short or long version? @U The
  long version please, with all the steps and many examples.
- @S tutor Write a complete summary of {mtopic} for my exam with examples of every kind of task.
- Write twelve quiz questions about {mathist} and {mconcept}, each with four options, the answer and an
  explanation.
"""

CODE = r"""
- Write a complete {app} in {plang}, with comments, error handling and a main function.
- Write a full {plang} program for {app} with a menu, input checks, and saving to a file.
- Write a complete class {cclass} in {plang} with at least ten methods, documentation and a usage
  example for each.
- Implement a {ds} in {plang} from scratch with insert, delete, search, iteration and a full test suite.
- Write a complete tutorial on {concept} for beginners, with many code examples in {plang}.
- Write a long article about {concept}: motivation, history, examples in {plang}, pitfalls, summary.
- Explain {algo} in great detail: idea, pseudocode, full code in {plang}, complexity and a worked example.
- Write a complete web page with HTML, CSS and JavaScript for {webui}, fully styled.
- Build {app} as a web app: write all files, the server, the client and the styles.
- Write a complete REST API for {apires} in {plang}, with all routes, validation and tests.
- Write a detailed design document for {app}: requirements, architecture, data model, API, risks, plan.
- Write a complete test suite in pytest, with at least twelve tests, for code that {ptask}.
- Write a full guide to {tool}: installation, basics, advanced use, common errors, examples.
- Write a learning plan for {plang} over eight weeks, with daily tasks and small projects.
- Write a detailed comparison of {vs}, with code examples, a table and advice on when to use which.
- Write a text adventure game in {plang} that plays in {city}, with at least eight rooms.
- Write the SQL for a database of {apires}: all tables, indexes, sample rows and ten useful queries.
- Write a long README for {app}: features, install, usage, configuration, development, licence, FAQ.
- Write a full onboarding document for a new developer who works on {app} in {plang}.
- Write thirty interview questions about {plang} and {concept}, with full answers.
- Explain "{errmsg}" at length: what it means, all the causes, how to debug, and full fixed examples.
- Rewrite this as a complete, documented program with tests:\n\n{pysnip}
- Can you help with {app}? @A Of course. Which language do you use, and what should it do? @U {plang},
  and it should do everything that such apps do. Write the complete code.
- @S coder Write the complete implementation of a {ds} with docs, tests and benchmarks in {plang}.
- @S reviewer Write a full coding guideline for a {plang} team, at least ten rules with good and bad
  examples.
- @S analyst Write a complete report on {apires}: goals, queries, findings, recommendations, appendix.
"""
