"""Code patterns: one bullet per pattern; see patterns_chat for the notation."""

RAW = r"""
- Write a {plang} function that {ptask}.
- python one-liner that {ptask}
- Explain why {pyexpr} gives what it gives in Python.
- Write a regular expression matching {rx} and explain every part of it, with five strings that
  match and five that don't.
- git: how do I {gitq}?
- Explain in depth what happens inside git when I {gitq}, and what could go wrong.
- Write the SQL for {sqlq} in three different ways and compare their speed.
- What does {acro} stand for?
- What is {acro} and why do people use it? A short paragraph.
- In one sentence, what is {concept}?
- Explain {concept} with examples in {plang} and {plang2}.
- Write a blog post about {concept} for junior developers, around 600 words.
- Difference between {vs}?
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
- When would you use a {ds}? One sentence.
- Write a class {cclass} in {plang} with at least four methods and tests.
- Write a complete {plang} program for {app} that runs in the terminal.
- Build {app} as a single HTML file with CSS and JavaScript.
- Design a REST API for {apires}: endpoints, methods, example requests and responses, error codes.
- Write a FastAPI app with create, read, update and delete for {apires}.
- What does this function do? One sentence.\n\n{pysnip}
- Explain this code line by line.\n\n{pysnip}
- Find the problems in this code and fix them:\n\n{pysnip}
- Translate to {plang}:\n\n{jssnip}
- Suggest a better name for the function or class below. Only the name.\n\n{pysnip}
- Rewrite with modern syntax and explain each change you make.\n\n{jssnip}
- Which language is this? One word.\n\n{csnip}
- Give a thorough code review of this, covering correctness, safety, style and
  performance:\n\n{csnip}
- Port this to Python.\n\n{csnip}
- Explain this query in plain English.\n\n{sqlsnip}
- Explain this error to a beginner and show two ways of preventing it:\n\n{trace}
- Write an incident report (summary, timeline, root cause, follow-up) based on this log:\n\n{log}
- Write a Python script which parses lines like these and prints a summary per kind:\n\n{log}
- Write pandas code which loads the following csv, cleans it, and computes three useful
  statistics:\n\n{csv}
- Write a Python script that reads a CSV file and {csvtask}.
- What is {tool}? Answer in two sentences.
- Tutorial: getting started with {tool}, from installation to a real example.
- Pros and cons of {tool} for a team of {n:2-30} developers.
- How do I read a file line by line in {plang}?
- How do you write a comment in {plang}?
- hello world in {plang}
- Write FizzBuzz in {plang} up to {n:20-150}.
- What's the file extension for {plang} source files?
- Should I learn {plang} or {plang2} first?
- Make a {n:4-12}-week study plan for learning {plang}, with a project every week.
- Write a GitHub Actions workflow that lints and tests a {plang} project.
- Write a state machine in {plang} for {strtask} and explain its states.
- Analogy for {concept}, one or two sentences.
- Write a conversation in which a senior developer teaches {concept} to a new hire who keeps
  asking why.
"""
