"""A chat server that answers with as many tokens as it is told to, in a thread of the test."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeServer(ThreadingHTTPServer):
    """Answers with as many tokens as the last message has characters, plus seed % 5.

    fail: text of the last message -> list of statuses to give before answering (0: hang up).
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.fail: dict[str, list[int]] = {}
        self.bodies: list[dict] = []
        self.keys: list[str | None] = []
        self.reply = {}
        self.pause_at: int | None = None
        self.paused, self.resume = threading.Event(), threading.Event()

    def asked(self):
        return Counter(body["messages"][-1]["content"] for body in self.bodies)

    def handle_error(self, request, client_address):
        """Clients that go away are part of these tests."""


class Handler(BaseHTTPRequestHandler):
    server: FakeServer

    def log_message(self, *_):
        pass

    def send(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.send(200, {"data": [{"id": "tiny"}, {"id": "other"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.server.keys.append(self.headers["Authorization"])
        if len(self.server.bodies) == self.server.pause_at:
            self.server.paused.set()
            self.server.resume.wait(60)
            return
        text = body["messages"][-1]["content"]
        if self.server.fail.get(text):
            status = self.server.fail[text].pop(0)
            if status:
                self.send(status, {"error": {"message": f"no luck with {text}"}})
            else:
                self.connection.close()
            return
        tokens = len(text) + body["seed"] % 5
        choice = {"message": {"content": "x" * tokens}, "finish_reason": "stop"}
        self.send(
            200,
            {"choices": [choice], "usage": {"completion_tokens": tokens}} | self.server.reply,
        )
