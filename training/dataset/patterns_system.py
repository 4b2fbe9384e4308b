"""Patterns with a long system prompt: "@S name" names it, the rest is the user's message.

See patterns_chat for the notation of the slots.
"""

CHAT = r"""
- @S support Hi, my order {ordno} with {order} has still not arrived and I needed it {when}. I'm
  really annoyed, this is the second time.
- @S support I got {order} but it's broken. Please write me a full explanation of what to do, step
  by step, from packing to refund.
- @S support Write me a letter that I can print and put in the return parcel for order {ordno},
  reason: wrong size, item: {order}.
- @S voice Tell us a story about {hero} while we eat.
- @S voice What sound does the {animal} make?
- @S voice Can {pet} eat {food}?
- @S voice how does {topic} work? the kids want to know all about it
- @S editor Tagline for {biz}.
- @S editor Instagram post for {biz}, topic: {season}.
- @S editor Newsletter item: {name} joins the team as {job} {when}.
- @S editor Home page text for {biz} in {city}.
- @S editor Headline only, please:\n\n{article}
- @S travel Do I need a visa for {country} with a German passport?
- @S travel Is {city} nice in {season}?
- @S travel {city} or {city2} with a wheelchair?
- @S travel Packing list for {n:3-12} days in {country} in {season}.
- @S travel What should I absolutely not do in {country}? Explain the customs so I don't embarrass
  myself.
- @S kitchen Can I freeze {dish}?
- @S kitchen My {dish} turned out bland and watery, why?
- @S kitchen what can i use instead of {food}
- @S kitchen oven temp for {dish}? just the number
"""

MATH = r"""
- @S tutor just the answer: {a:12-99} x {b:12-99}
- @S tutor How do I solve {a:2-9}x + {b:1-20} = {c:30-90}?
- @S tutor I don't get {mtopic} at all, I'm so bad at this, test is {when}
- @S tutor What does {mconcept} mean?
- @S tutor Find the maximum of y = -x^2 + {a:2-16}x + {b:1-9}. I've not had derivatives yet.
- @S tutor {name} runs {a:3-12} km in {b:20-70} minutes. How long for {c:13-21} km at the same
  speed? explain it to me
"""

CODE = r"""
- @S coder Full program: {app} in {plang}.
- @S coder Explain {concept} in detail, I have an exam {when}.
- @S reviewer Please review:\n\n{pysnip}
- @S reviewer Verdict only:\n\n{diff}
- @S reviewer The author asks: why does "{errmsg}" happen after my change?\n\n{diff}
- @S extractor Keys: first_error, error_count, components.\n\n{log}
"""
