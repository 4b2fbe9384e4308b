"""Logs, code and tables that prompts quote, all written by hand.

Each value starts with a line "=== name"; several values under one name form a list. Lines
are kept as they are; some snippets hold mistakes on purpose.
"""

RAW = r"""
=== log
2024-05-02 03:11:08 INFO worker-3 started job 8841 (resize images)
2024-05-02 03:11:09 INFO worker-1 finished job 8838 in 41.2s
2024-05-02 03:11:15 WARN worker-3 memory at 91%
2024-05-02 03:11:19 WARN worker-3 memory at 97%
2024-05-02 03:11:20 ERROR worker-3 killed by signal 9 (job 8841)
2024-05-02 03:11:21 INFO scheduler requeued job 8841 (attempt 2 of 3)
2024-05-02 03:11:30 INFO worker-2 started job 8841 (resize images)
2024-05-02 03:12:02 ERROR worker-2 killed by signal 9 (job 8841)
=== log
[09:58:01] GET /health 200 2ms
[09:58:03] GET /api/cart/77 200 35ms
[09:58:04] POST /api/checkout 500 3012ms upstream timed out: payments:8443
[09:58:04] GET /static/logo.svg 304 1ms
[09:58:07] POST /api/checkout 500 3009ms upstream timed out: payments:8443
[09:58:09] GET /api/cart/12 200 29ms
[09:58:11] POST /api/checkout 200 480ms
[09:58:15] GET /health 200 2ms
=== log
Jun 11 22:40:17 gate sshd[2201]: Failed password for root from 203.0.113.9 port 40122
Jun 11 22:40:19 gate sshd[2201]: Failed password for root from 203.0.113.9 port 40122
Jun 11 22:40:22 gate sshd[2207]: Failed password for admin from 203.0.113.9 port 40188
Jun 11 22:41:02 gate sshd[2214]: Accepted publickey for deploy from 198.51.100.4 port 51514
Jun 11 22:41:40 gate sshd[2230]: Failed password for test from 203.0.113.77 port 33210
Jun 11 22:43:00 gate sshd[2214]: Disconnected from user deploy 198.51.100.4
=== log
build #512 queued 14:02
build #512 fetch sources ok (4s)
build #512 install dependencies ok (61s)
build #512 lint ok (9s)
build #512 test FAILED (118s): 3 failed, 240 passed, 2 skipped
  test_invoice.py::test_rounding - AssertionError: 10.01 != 10.00
  test_invoice.py::test_discount - AssertionError: 9.01 != 9.00
  test_invoice.py::test_total - AssertionError: 19.02 != 19.00
build #512 deploy skipped
=== log
disk /dev/sda1 used 71% 10:00
disk /dev/sdb1 used 93% 10:00
disk /dev/sda1 used 71% 11:00
disk /dev/sdb1 used 96% 11:00
disk /dev/sda1 used 72% 12:00
disk /dev/sdb1 used 99% 12:00
db: could not extend file "base/16384/2619": No space left on device
db: HINT: Check free disk space.
=== pysnip
def f(items):
    seen = set()
    out = []
    for x in items:
        if x not in seen:
            seen.add(x)
            out.append(x)
    return out
=== pysnip
def average(nums):
    total = 0
    for n in nums:
        total += n
    return total / len(nums)

print(average([]))
=== pysnip
def fib(n, memo={}):
    if n in memo:
        return memo[n]
    if n < 2:
        return n
    memo[n] = fib(n - 1) + fib(n - 2)
    return memo[n]
=== pysnip
import random

def pick(names, k):
    names = list(names)
    random.shuffle(names)
    return sorted(names[:k])
=== pysnip
def read_config(path):
    config = {}
    f = open(path)
    for line in f:
        if line.startswith("#"):
            continue
        key, value = line.split("=")
        config[key] = value
    return config
=== pysnip
def search(a, x):
    lo, hi = 0, len(a)
    while lo < hi:
        mid = (lo + hi) // 2
        if a[mid] < x:
            lo = mid + 1
        else:
            hi = mid
    return lo
=== pysnip
class Counter:
    counts = {}

    def add(self, word):
        self.counts[word] = self.counts.get(word, 0) + 1

    def top(self):
        return max(self.counts, key=self.counts.get)
=== pysnip
def chunks(seq, size):
    for i in range(0, len(seq), size):
        yield seq[i:i + size]
=== jssnip
function debounce(fn, wait) {
  let timer = null;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => fn(...args), wait);
  };
}
=== jssnip
const total = cart
  .filter((item) => item.inStock)
  .map((item) => item.price * item.qty)
  .reduce((a, b) => a + b, 0);
=== jssnip
for (var i = 0; i < 3; i++) {
  setTimeout(function () {
    console.log(i);
  }, 100);
}
=== jssnip
async function load(ids) {
  const users = [];
  for (const id of ids) {
    const res = await fetch("/api/users/" + id);
    users.push(await res.json());
  }
  return users;
}
=== jssnip
function equal(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}
=== csnip
char *greet(const char *name) {
    char buf[64];
    sprintf(buf, "Hello, %s!", name);
    return buf;
}
=== csnip
int sum(int *a, int n) {
    int s = 0;
    for (int i = 0; i <= n; i++)
        s += a[i];
    return s;
}
=== csnip
func worker(jobs <-chan int, results chan<- int) {
    for j := range jobs {
        results <- j * j
    }
}
=== csnip
void swap(int a, int b) {
    int t = a;
    a = b;
    b = t;
}
=== csnip
fn longest<'a>(words: &[&'a str]) -> Option<&'a str> {
    words.iter().copied().max_by_key(|w| w.len())
}
=== sqlsnip
SELECT c.name, COUNT(o.id) AS orders
FROM customers c
LEFT JOIN orders o ON o.customer_id = c.id
GROUP BY c.name
HAVING COUNT(o.id) = 0;
=== sqlsnip
SELECT * FROM events
WHERE DATE(created_at) = '2024-01-31'
ORDER BY created_at DESC
LIMIT 10;
=== sqlsnip
UPDATE products
SET price = price * 1.1
WHERE category IN (SELECT id FROM categories WHERE name = 'Toys');
=== sqlsnip
SELECT day, amount,
       SUM(amount) OVER (ORDER BY day ROWS 6 PRECEDING) AS week_total
FROM sales;
=== sqlsnip
DELETE FROM sessions
WHERE user_id NOT IN (SELECT id FROM users)
   OR expires_at < NOW();
=== trace
Traceback (most recent call last):
  File "/app/main.py", line 31, in <module>
    main()
  File "/app/main.py", line 24, in main
    report(load("sales.csv"))
  File "/app/main.py", line 12, in report
    total += row["amount"]
TypeError: unsupported operand type(s) for +=: 'int' and 'str'
=== trace
Traceback (most recent call last):
  File "bot.py", line 18, in <module>
    reply = data["choices"][0]["text"]
IndexError: list index out of range
=== trace
Exception in thread "main" java.lang.NullPointerException: Cannot invoke "String.length()"
    at shop.Label.width(Label.java:44)
    at shop.Printer.print(Printer.java:102)
    at shop.Main.main(Main.java:9)
=== trace
Uncaught TypeError: Cannot read properties of undefined (reading 'map')
    at UserList (UserList.jsx:14:22)
    at renderWithHooks (react-dom.js:14985:18)
    at mountIndeterminateComponent (react-dom.js:17811:13)
=== trace
thread 'main' panicked at src/main.rs:17:29:
called `Option::unwrap()` on a `None` value
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
=== csv
name,team,points,city
Ola,Red,41,Bergen
Femi,Blue,38,Lagos
Ines,Red,45,Porto
Karl,Green,22,Graz
Mei,Blue,51,Taipei
Rafa,Green,30,Quito
=== csv
date,item,qty,price
2024-02-01,bread,30,2.50
2024-02-01,rolls,120,0.60
2024-02-02,bread,25,2.50
2024-02-02,cake,4,18.00
2024-02-03,rolls,140,0.60
2024-02-03,cake,7,18.00
=== csv
station,jan,feb,mar,apr
North,-4,-2,3,8
Harbour,1,2,5,9
Summit,-12,-11,-7,-2
Valley,-1,1,6,11
=== csv
id,student,math,art,sport
1,Ben,72,88,64
2,Zoe,91,67,70
3,Ravi,85,79,93
4,Lena,58,95,81
5,Hugo,77,60,88
=== csv
route,stops,riders,late_pct
5,22,8100,4
11,31,12650,9
27,18,2100,2
40,27,9900,13
S1,9,21400,6
=== diff
-    if user.age > 18:
+    if user.age >= 18:
         grant(user)
-    log.info("done")
+    log.debug("checked %s", user.id)
=== diff
 def load(path):
-    with open(path) as f:
-        return json.load(f)
+    f = open(path)
+    return json.loads(f.read())
=== diff
-const TIMEOUT = 3000;
+const TIMEOUT = Number(process.env.TIMEOUT || 30000);
 client.connect({ timeout: TIMEOUT });
=== diff
+CREATE INDEX idx_orders_user ON orders (user_id);
-SELECT * FROM orders WHERE user_id = 7;
+SELECT id, total FROM orders WHERE user_id = 7;
=== diff
 for i in range(len(rows)):
-    process(rows[i])
+    try:
+        process(rows[i])
+    except Exception:
+        pass
"""
