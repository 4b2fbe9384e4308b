"""Math patterns: one bullet per pattern; see patterns_chat for the notation."""

RAW = r"""
- What is {a:12-99} + {b:12-99}?
- {a:100-999} * {b:11-99} = ? only the number
- compute {a:200-990} / {b:3-9} to two decimals
- What is {p:5-95}% of {a:40-900}?
- A {shopi} costs ${a:10-90} and is {p:10-60}% off. What do I pay?
- Find the LCM of {a:6-40} and {b:6-40} and explain two different methods.
- Round {a:10-99}.{b:1111-9999} to one decimal place.
- Convert {a:1-30}/{b:31-64} to a decimal.
- Simplify the fraction {a:12-60}/{b:64-120}.
- Add {a:1-6}/{b:7-12} and {c:1-8}/{d:9-14}. Show your working.
- Solve for x: {a:2-9}x + {b:1-30} = {c:31-99}
- Solve {a:2-9}x - {b:3-20} = {c:2-8}x + {d:21-60} and verify the result by substitution.
- Solve the quadratic x^2 - {a:3-15}x + {b:2-30} = 0 using the formula, with every step.
- Solve the system: {a:2-7}x + {b:2-7}y = {c:10-50}, {d:2-5}x - y = {e:1-9}. Use both substitution
  and elimination.
- Expand ({a:2-7}x + {b:1-9})({c:2-7}x - {d:1-9}).
- What's the derivative of {fx}?
- Differentiate {fx} step by step and name each rule that you use.
- Evaluate {fx} at x = {a:1-9}.
- Find the equation of the tangent line to y = {fx} at x = {a:1-5}.
- Give a one-line reason why {proof}.
- Give two different proofs that {proof}, and discuss which one is more instructive.
- State {theorem}.
- Explain {theorem} with a worked example and a typical mistake.
- Define {mconcept} in one sentence.
- What is {mconcept}? Explain it like I'm {n:8-14} with an everyday example.
- Write a lesson plan of 45 minutes on {mconcept}, including an opening, two activities and
  homework.
- What's the difference between {mvs}?
- Write down the formula for the area or volume of a {shape}.
- Derive the formula for the area or surface of a {shape} from first principles.
- {name} has {a:20-90} {thing} and gives {b:3-15} to each of {c:2-4} friends. How many are left?
- {name} buys {a:3-12} {shopi}s at ${b:4-30} each and pays with ${c:200-400}. How much change?
  Explain your reasoning.
- Two trains leave {city} and {city2}, {a:300-900} km apart, at {b:60-120} km/h and {c:60-120}
  km/h towards each other. When do they meet?
- {name} is {a:3-12} years older than {name2}. In {b:2-9} years their ages add up to {c:50-90}.
  How old are they now?
- A pool is filled by one pipe in {a:3-9} hours and by another in {b:10-15} hours. How long do
  both take together? Set up the equation and solve it.
- If {a:3-9} workers build a wall in {b:6-20} days, how many days do {c:10-15} workers need?
- how many {unitq}? number only
- Convert {a:40-110} degrees Fahrenheit to Celsius.
- sqrt of {a:50-900} approx?
- What is {a:2-9} to the power of {b:3-6}?
- Find the sum of the first {n:20-200} terms of the arithmetic series starting at {a:1-9} with
  difference {d:2-7}.
- Make a multiplication table from 1 to {n:6-12}.
- Mean and median of {a:1-20}, {b:10-40}, {c:5-50}, {d:20-60}, {e:1-9}?
- Compute the standard deviation of {a:1-20}, {b:10-40}, {c:5-50}, {d:20-60}. Put the intermediate
  values in a table.
- A bag has {a:3-9} red and {b:3-9} blue {thing}. I draw two without putting them back. What's the
  probability that both are red? Show the steps.
- How many ways to choose {k:2-4} {thing} from {n:8-15}? Explain why order doesn't matter.
- Write {a:100-4000} in Roman numerals.
- What day of the week is it {n:20-400} days after a Monday?
- Multiply the matrices [[{a:1-9}, {b:1-9}], [{c:1-9}, {d:1-9}]] and [[{e:1-9}, 0], [1, {f:1-9}]].
- det [[{a:1-9}, {b:1-9}], [{c:1-9}, {d:1-9}]]
- I invest {a:1-9}000 at {p:2-8}% a year for {n:5-12} years. Make a year-by-year table of the
  balance with compound interest.
- A loan of {a:5-30}000 over {n:3-10} years at {p:3-9}%: explain how the monthly payment is worked
  out and what the total interest is.
- Which is bigger, {a:2-9}/{b:10-14} or {c:2-9}/{d:15-19}?
- Who was {mathist}? Two sentences.
- Write an article of about 500 words about the life and work of {mathist}.
- Explain how maths is used for {rlmath}, with two worked examples.
- My answer for {a:20-90} * {b:11-40} is {c:300-3600}. Right or wrong?
- my kid hates {mtopic}, any ideas? he is {n:7-13}
- Give me one trick for {mtopic}.
- Write a cheat sheet of all the key rules for {mtopic}.
- Look at this table, find the total and average of every numeric column and say what stands
  out.\n\n{csv}
- What's {a:12000-99000} in scientific notation?
- A ladder {a:5-13} m long leans on a wall with its foot {b:1-4} m away. How high does it reach?
  Include the theorem you use.
- Debate: should schools spend less time on {mtopic}? Argue for both sides in an essay.
"""
