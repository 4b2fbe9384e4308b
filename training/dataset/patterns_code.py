"""Code patterns: one bullet per pattern; see patterns_chat for the notation."""

RAW = r"""
- Write a {plang} function that {ptask}.
- python one-liner that {ptask}
- What does this print? Only the output.\n\nprint({pyexpr})
- Explain why {pyexpr} gives what it gives in Python.
- Regex for {rx}
- Write a regular expression matching {rx} and explain every part of it, with five strings that
  match and five that don't.
- bash: {shell}
- Give me a shell command to {shell}. Command only, no explanation.
- Write a commented bash script with options and usage help to {shell}.
- git: how do I {gitq}?
- Explain in depth what happens inside git when I {gitq}, and what could go wrong.
- SQL query for {sqlq}. Assume sensible table names.
- Write the SQL for {sqlq} in three different ways and compare their speed.
- What does {acro} stand for?
- What is {acro} and why do people use it? A short paragraph.
- In one sentence, what is {concept}?
- Explain {concept} with examples in {plang} and {plang2}.
- Write a blog post about {concept} for junior developers, around 600 words.
- Difference between {vs}?
- Make a table of the differences between {vs}.
- I get "{errmsg}". Why?
- Write a troubleshooting guide for the error "{errmsg}" listing all common causes and a fix for
  each.
- Implement {algo} in {plang}.
- What's the time complexity of {algo}? Just big-O.
- Big O of {bigo}?
- Explain {algo} step by step on a small example, no code.
- Write pseudocode for {algo}.
- Compare {algo} and {algo2}: idea, complexity, memory, when to use which.
- Implement a {ds} in {plang} with all the usual operations and comments.
- Write unit tests for a {ds} using pytest. Don't write the implementation.
- When would you use a {ds}? One sentence.
- Write a class {cclass} in {plang} with at least four methods and tests.
- Design the public interface for a {cclass} class. Signatures only.
- Write a complete {plang} program for {app} that runs in the terminal.
- Build {app} as a single HTML file with CSS and JavaScript.
- List the features that {app} should have in a first version, {n:5-9} bullets.
- Write user stories with acceptance criteria for {app}.
- Write a README for {app} written in {plang}.
- HTML and CSS for {webui}.
- which html tag would u use for {webui}? one tag
- Design a REST API for {apires}: endpoints, methods, example requests and responses, error codes.
- Give an example JSON object for {apires} with {n:4-8} fields.
- Write a FastAPI app with create, read, update and delete for {apires}.
- CREATE TABLE statement for {apires}
- Name a good table name and primary key for {apires}. One line.
- What does this function do? One sentence.\n\n{pysnip}
- Explain this code line by line.\n\n{pysnip}
- Is there a bug in this? yes or no\n\n{pysnip}
- Find the problems in this code and fix them:\n\n{pysnip}
- Add type hints and a docstring:\n\n{pysnip}
- Write at least six pytest tests, including edge cases, for this:\n\n{pysnip}
- Translate to {plang}:\n\n{jssnip}
- Suggest a better name for the function or class below. Only the name.\n\n{pysnip}
- What's the time complexity?\n\n{pysnip}
- what happens here?\n{jssnip}
- Rewrite with modern syntax and explain each change you make.\n\n{jssnip}
- Which language is this? One word.\n\n{csnip}
- Spot the bug (if any) in one sentence:\n\n{csnip}
- Give a thorough code review of this, covering correctness, safety, style and
  performance:\n\n{csnip}
- Port this to Python.\n\n{csnip}
- Explain this query in plain English.\n\n{sqlsnip}
- Could this query be slow on a big table? Discuss indexes and rewrite it if it
  helps.\n\n{sqlsnip}
- Does this statement change any data? Yes/no\n\n{sqlsnip}
- {trace}\n\nwhich line do i fix?
- Explain this error to a beginner and show two ways of preventing it:\n\n{trace}
- What type of error is this? Only its name.\n\n{trace}
- Write a commit message for this diff:\n\n{diff}
- Review this change. Would you approve it?\n\n{diff}
- Which of the log lines below matter? Quote them only.\n\n{log}
- Write an incident report (summary, timeline, root cause, follow-up) based on this log:\n\n{log}
- How many errors or failures are in the log? Just the number.\n\n{log}
- Write a Python script which parses lines like these and prints a summary per kind:\n\n{log}
- Turn this csv into a JSON array:\n\n{csv}
- Write pandas code which loads the following csv, cleans it, and computes three useful
  statistics:\n\n{csv}
- Write a Python script that reads a CSV file and {csvtask}.
- Default port for {port}?
- What is {tool}? Answer in two sentences.
- Tutorial: getting started with {tool}, from installation to a real example.
- Pros and cons of {tool} for a team of {n:2-30} developers.
- Do I need {tool} for {app}? yes or no.
- How do I read a file line by line in {plang}?
- How do you write a comment in {plang}?
- hello world in {plang}
- Write FizzBuzz in {plang} up to {n:20-150}.
- What's the file extension for {plang} source files?
- Should I learn {plang} or {plang2} first?
- Make a {n:4-12}-week study plan for learning {plang}, with a project every week.
- Give me {n:5-12} interview questions on {plang} with short answers.
- Write a {plang} cheat sheet: variables, loops, functions, collections, errors and files.
- Write a generator of random {apires} test data in {plang}.
- Write a Dockerfile for {app} in {plang}.
- Write a GitHub Actions workflow that lints and tests a {plang} project.
- gitignore for {plang} project
- Write a state machine in {plang} for {strtask} and explain its states.
- Do {strtask} in {plang} without loops.
- Name the built-in {plang} function or method most useful for {strtask}.
- Write a command line tool in {plang} for {strtask} with argument parsing, error messages and
  tests.
- Make a multiple choice question about {concept} with four options and mark the right one.
- Analogy for {concept}, one or two sentences.
- Write a conversation in which a senior developer teaches {concept} to a new hire who keeps
  asking why.
- Name three bugs that beginners make with a {ds}.
- Write an ASCII diagram of a {ds} holding {n:4-8} numbers.
- convert this curl to python requests: curl -X POST https://api.example.com/{apires} -H
  "Authorization: Bearer TOKEN" -d "limit={n:5-90}"
- Simulate {n:3-9} rounds of {app} in text so I can see how it would look on screen.
"""
