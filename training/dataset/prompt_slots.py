"""Word lists that fill the slots of the prompt templates, all written by hand.

One bullet per list: its name, a colon, and the values with " | " between them.
"""

RAW = r"""
- topic: the water cycle | inflation | how vaccines work | plate tectonics | compound interest |
  noise cancelling headphones | how bread rises | the electoral college | why the sky is blue |
  recycling plastic | how GPS finds you | insurance deductibles | tides | how a microwave heats
  food | the stock market | jet lag
- sci: osmosis | entropy | natural selection | a black hole | half-life | friction | a catalyst |
  photosynthesis | momentum | a neutron star | mitosis | refraction | a vacuum | symbiosis
- hist: the fall of the Berlin Wall | the French Revolution | the Black Death | the Apollo 11
  landing | the building of the Suez Canal | the Great Fire of London | the end of apartheid | the
  invention of the printing press | the Silk Road trade | the Wall Street crash of 1929
- city: Lisbon | Kyoto | Nairobi | Montreal | Prague | Buenos Aires | Istanbul | Copenhagen |
  Hanoi | Marrakesh | Edinburgh | Chicago | Melbourne | Lima
- country: Norway | Peru | Kenya | Vietnam | Canada | Poland | Morocco | Thailand | Chile | Greece
  | Mongolia | Portugal | Egypt | New Zealand
- animal: octopus | red panda | hedgehog | blue whale | barn owl | axolotl | camel | honey badger
  | emperor penguin | gecko | otter | crow
- pet: a rescue greyhound | two kittens | a hamster | a cockatiel | an elderly labrador | a
  goldfish | a rabbit | a border collie puppy
- food: lentils | sourdough | avocado | tofu | blue cheese | oats | salmon | sweet potatoes |
  mushrooms | yoghurt | kale | chickpeas
- dish: vegetable lasagne | chicken curry | banana bread | ramen | shakshuka | mushroom risotto |
  fish tacos | pancakes | beef stew | falafel | pad thai | tomato soup
- job: nurse | primary school teacher | electrician | data analyst | barista | project manager |
  paralegal | graphic designer | bus driver | accountant | physiotherapist | chef
- hobby: bouldering | watercolour painting | birdwatching | home brewing | chess | knitting |
  astronomy | woodworking | trail running | playing the ukulele | gardening | learning Spanish
- name: Priya | Marcus | Elena | Tom | Aisha | Kenji | Sofia | Daniel | Grace | Omar | Lucy |
  Mateo | Hannah | Felix
- biz: a small bakery | a mobile dog groomer | a second-hand bookshop | a yoga studio | a bike
  repair shop | a food truck | an online plant store | a tutoring service | a coffee roaster | a
  wedding photographer
- product: a reusable water bottle | a standing desk | wireless earbuds | a weighted blanket | a
  portable espresso maker | a solar phone charger | a folding bike | a smart thermostat | a noise
  machine | a cast iron pan
- device: laptop | phone | printer | wifi router | washing machine | smart tv | bluetooth speaker
  | tablet | dishwasher | smartwatch
- emotion: lonely | burnt out | anxious about an exam | proud of myself | jealous of a friend |
  homesick | bored at work | nervous about moving
- hlang: French | Spanish | German | Italian | Portuguese | Dutch | Swedish | Polish
- word: ephemeral | stubborn | gratitude | resilient | mundane | candid | ambiguous | frugal |
  nostalgia | tenacious | serene | benevolent
- phrase: Where is the nearest pharmacy? | I would like a table for two. | See you tomorrow
  morning. | The train is late again. | How much does this cost? | I forgot my umbrella. | Happy
  birthday, dear friend! | Could you speak more slowly?
- badsent: Me and him was going to the store yesterday. | Their is alot of reasons why this dont
  work. | She have been working here since three years. | The informations you gave me was very
  usefull. | If I would of known, I would have came. | Its a shame the team lost there best
  player. | Everyone need to bring they own lunch. | He dont know nothing about it.
- idiom: break the ice | bite the bullet | once in a blue moon | spill the beans | under the
  weather | burn the midnight oil | hit the nail on the head | let the cat out of the bag
- sport: tennis | rugby | cricket | basketball | swimming | rowing | volleyball | fencing | table
  tennis | ice hockey
- theme: the first snow | a lost key | an old lighthouse | growing up | a rainy Monday | the sea
  at night | a grandmother's kitchen | a long train ride | autumn leaves | an empty playground
- hero: a shy dragon | a retired detective | a robot gardener | a lighthouse keeper | a clumsy
  wizard | a girl who talks to birds | a time-travelling postman | a runaway prince | a lonely
  astronaut | a baker with a secret
- genre: mystery | science fiction | ghost story | western | fairy tale | romantic comedy | heist
  | fantasy
- issue: banning cars from city centres | a four-day work week | school uniforms | free public
  transport | homework for young children | zoos | mandatory voting | remote work | a sugar tax |
  keeping daylight saving time
- habit: drinking more water | waking up early | reading every day | saving money | stretching |
  meditating | cooking at home | cutting down screen time | walking to work | flossing
- event: a 40th birthday party | a baby shower | a school fundraiser | a team offsite | a wedding
  rehearsal dinner | a farewell party | a neighbourhood picnic | a book launch | a charity run | a
  housewarming
- problem: my neighbour plays loud music at night | my landlord won't fix the heating | my
  coworker takes credit for my work | my teenager won't do homework | my package never arrived |
  my friend keeps cancelling plans | I missed a payment deadline | I double booked a meeting
- capq: the capital of Australia | the largest ocean | the chemical symbol for gold | the tallest
  mountain in Africa | the longest river in South America | the smallest planet | the currency of
  Japan | the hardest natural mineral | the author of Don Quixote | the fastest land animal
- ynq: a tomato a fruit | Pluto still classed as a planet | the Great Wall visible from the Moon |
  glass a liquid | a whale a fish | the Sun a star | a spider an insect | gold heavier than silver
  | honey safe for babies | Venus hotter than Mercury
- yearq: did the Titanic sink | did World War II end | did humans first walk on the Moon | was the
  Eiffel Tower completed | did the Berlin Wall fall | was penicillin discovered | did the first
  modern Olympics take place | was the telephone patented
- countq: legs does a lobster have | bones are in an adult human body | strings does a standard
  violin have | players are on a football team | planets are in the solar system | time zones does
  China use | hearts does an octopus have | letters are in the Greek alphabet | moons does Mars
  have | teeth does an adult human have
- book: Pride and Prejudice | Moby-Dick | Frankenstein | The Odyssey | Little Women | Dracula |
  Treasure Island | Jane Eyre | Don Quixote | Hamlet
- body: lower back pain from sitting | a mild headache | trouble falling asleep | dry skin in
  winter | sore legs after running | hiccups that won't stop | tired eyes from screens | a blocked
  nose
- room: a tiny bedroom | a home office | a dark hallway | a balcony | a kids' playroom | a rented
  kitchen | a garage | a shared living room
- age: five | eight | eleven | seventy | fifteen
- audience: a curious child | a busy manager | a new intern | my grandmother | a sceptical friend
  | a university student | a tourist | a policy maker
- when: on Tuesday | next Friday | tomorrow at 9 | in two weeks | this weekend | at the end of the
  month
- season: spring | summer | autumn | winter | the rainy season | the holidays
- skill: public speaking | touch typing | negotiating | drawing faces | writing cover letters |
  small talk | budgeting | reading sheet music | time management | saying no
- person: Marie Curie | Leonardo da Vinci | Nelson Mandela | Ada Lovelace | Galileo | Frida Kahlo
  | Florence Nightingale | Isaac Newton | Rosa Parks | Johannes Gutenberg
- item: coffee | paper | glass | chocolate | soap | cheese | denim | rubber | salt | tea
- plang: Python | JavaScript | Java | C | Go | Rust | TypeScript | Ruby | C++ | Kotlin
- algo: binary search | quicksort | breadth-first search | Dijkstra's algorithm | merge sort | the
  sieve of Eratosthenes | depth-first search | insertion sort | the Euclidean algorithm |
  topological sort | Kadane's algorithm | heap sort
- ds: linked list | stack | queue | binary search tree | hash map | min-heap | trie | LRU cache |
  graph with an adjacency list | ring buffer | union-find | set
- ptask: reverses a string | counts the vowels in a word | checks whether a number is prime |
  flattens a nested list | removes duplicates but keeps order | finds the second largest number |
  merges two sorted lists | converts Celsius to Fahrenheit | checks whether two words are anagrams
  | sums the digits of an integer | capitalises every word in a sentence | rotates a list by k
  places
- strtask: a palindrome check | title-casing a sentence | counting words | finding the longest
  word | removing punctuation | swapping first and last name | truncating text with an ellipsis |
  censoring a word
- rx: a US phone number | an email address | a date like 2024-03-15 | a hex colour such as #ffcc00
  | an IPv4 address | a time in 24-hour format | a URL starting with https | a UK postcode | a
  floating point number | a hashtag | a MAC address | a semantic version like 1.4.2
- shell: find all files larger than 100 MB | count lines in every .py file | delete empty folders
  | show the 10 biggest directories | replace tabs by spaces in all .txt files | kill whatever
  listens on port 8080 | list files changed in the last day | print the third column of a csv |
  rename all .jpeg files to .jpg | show failed ssh logins | watch free memory every 2 seconds
- gitq: undo the last commit but keep the changes | see who last changed a line | delete a remote
  branch | squash my last 3 commits | stash only one file | rename a branch | find the commit that
  broke a test | discard all local changes | move a commit to another branch | list merged
  branches
- sqlq: the top 5 customers by total spend | users who never placed an order | the average order
  value per month | duplicate email addresses | the second highest salary | products that are out
  of stock | orders in the last 30 days | the number of signups per week | each department's best
  paid employee | days without any sales
- app: a to-do list | a tip calculator | a unit converter | a number guessing game | a password
  generator | a countdown timer | a contact book | an expense tracker | hangman | a flashcard quiz
  | tic-tac-toe | a habit tracker
- cclass: BankAccount | ShoppingCart | Library | ParkingLot | Inventory | Playlist | Matrix |
  TemperatureLog | Elevator | VotingMachine | Deck of cards | TodoList
- concept: recursion | a closure | dependency injection | a race condition | polymorphism | a
  deadlock | garbage collection | memoization | a foreign key | idempotency | tail call
  optimisation | a pure function | type inference | a webhook
- vs: a list and a tuple in Python | let and var in JavaScript | TCP and UDP | a process and a
  thread | SQL and NoSQL | GET and POST | git merge and git rebase | an interface and an abstract
  class | stack and heap memory | == and === in JavaScript | unit tests and integration tests | a
  compiler and an interpreter
- errmsg: IndexError: list index out of range | TypeError: undefined is not a function |
  NullPointerException | segmentation fault (core dumped) | ModuleNotFoundError: No module named
  'requests' | ECONNREFUSED 127.0.0.1:5432 | KeyError: 'id' | CORS policy: No
  'Access-Control-Allow-Origin' header | RecursionError: maximum recursion depth exceeded |
  permission denied (publickey) | fatal: not a git repository | UnicodeDecodeError: 'utf-8' codec
  can't decode byte
- acro: API | ORM | DNS | JSON | CI/CD | REST | JWT | CRUD | SSH | DOM | IDE | CDN | TLS | MVC
- pyexpr: len("hello" * 3) | 7 // 2 | [1, 2, 3][-1] | bool("False") | "a,b,c".split(",")[1] |
  sum(range(5)) | 2 ** 3 ** 2 | sorted("bca")[0] | 10 % 4 | max([3, 9, 2]) | type(1 / 1).__name__
  | "abc"[::-1]
- webui: a pricing table with three columns | a login form | a sticky navigation bar | a photo
  gallery grid | a contact page | a dark mode toggle | a modal dialog | a star rating widget | a
  progress bar | a footer with social links
- apires: books | recipes | invoices | user profiles | bookings | blog posts | sensors | movies |
  support tickets | exercises
- tool: a linter | Docker | a debugger | a package lock file | Make | pre-commit hooks | a load
  balancer | a message queue | a reverse proxy | a feature flag
- csvtask: sums a column called amount | drops rows with missing values | merges two files on an
  id column | prints the five most frequent values | converts it to JSON | sorts rows by date |
  splits it into one file per city | plots price over time
- bigo: looking up a key in a hash table | inserting at the head of a linked list | bubble sort in
  the worst case | binary search on a sorted array | building a heap from n items | finding all
  pairs in a list | popping from a stack | checking membership in a Python list | merge sort |
  depth-first search on a graph
- port: HTTPS | SSH | PostgreSQL | HTTP | DNS | MySQL | Redis | SMTP
- shape: circle | square | equilateral triangle | cube | sphere | cylinder | cone | rectangle |
  trapezoid | regular hexagon
- theorem: the Pythagorean theorem | the fundamental theorem of arithmetic | the binomial theorem
  | the intermediate value theorem | Bayes' theorem | the mean value theorem | the law of cosines
  | the remainder theorem
- mconcept: a prime number | a derivative | standard deviation | a logarithm | a complex number |
  a matrix determinant | a limit | an asymptote | a permutation | the median | a vector | an
  integral
- mvs: permutations and combinations | mean and median | rational and irrational numbers | area
  and perimeter | an equation and an expression | discrete and continuous variables | a sequence
  and a series | a relation and a function
- proof: the square root of 2 is irrational | there are infinitely many primes | the sum of two
  odd numbers is even | the sum of the first n integers is n(n+1)/2 | the angles of a triangle add
  up to 180 degrees | n^2 - n is always even | the product of two consecutive integers is even | a
  number is divisible by 3 if its digit sum is | the square of an odd number is odd | 0.999...
  equals 1 | the empty set is a subset of every set
- fx: x^3 - 4x | sin(2x) | x * e^x | ln(x^2 + 1) | (2x + 1)^5 | x / (x + 1) | cos(x)^2 | sqrt(3x -
  2) | 5x^4 - 2x + 7 | tan(x)
- unitq: kilometres are in 10 miles | ounces are in a pound | seconds are in a day | millilitres
  are in 3 litres | inches are in 2 metres | minutes are in a week | grams are in 2.5 kilograms |
  feet are in a mile | hours are in 3 days | square metres are in a hectare
- thing: apples | pencils | stickers | marbles | books | tickets | cupcakes | seashells | stamps |
  buttons
- shopi: notebook | sandwich | t-shirt | plant | lamp | cinema ticket | toy car | bag of rice
- mathist: Euclid | Euler | Gauss | Emmy Noether | Fibonacci | Archimedes | Hypatia | Ramanujan
- mtopic: fractions | long division | negative numbers | percentages | probability | quadratic
  equations | ratios | decimals | basic algebra | coordinate geometry | exponents
- rlmath: mortgage payments | splitting a restaurant bill | estimating paint for a wall |
  comparing phone plans | converting recipe sizes | reading a weather forecast | working out fuel
  costs | understanding sale discounts
- order: a blue rain jacket | a set of mugs | running shoes size 43 | a desk lamp | a wool scarf |
  a board game | a garden hose | a phone case
- ordno: BC-10482 | BC-22917 | BC-30065 | BC-41733 | BC-55120 | BC-60894 | BC-71346 | BC-88201
- ingred: eggs, spinach and feta | rice, beans and one onion | half a cabbage and some noodles |
  potatoes, leeks and cream | a tin of tuna and pasta | chickpeas, lemon and tahini | leftover
  roast chicken and carrots | bananas, oats and milk
- diet: vegan | gluten free | nut free | low salt | dairy free | vegetarian | halal | low carb
- trip: a weekend in {city} | three days in {city} with kids | a rainy day in {city} | a solo week
  around {country} | a road trip through {country} | a food tour of {city} | a cheap winter break
  in {country} | a honeymoon in {country}
"""
