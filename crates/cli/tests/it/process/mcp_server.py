"""An MCP server over HTTP that answers in each way the protocol has, and prints its address first.

It wants the token `secret`. Each request is written to the file that the first argument names, a line of JSON each.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

log = open(sys.argv[1], "a", buffering=1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, body):
        names = ("mcp-session-id", "mcp-protocol-version", "accept", "authorization")
        headers = {name: self.headers[name] for name in names if self.headers[name]}
        log.write(json.dumps({"verb": self.command, "headers": headers, "body": body}) + "\n")

    def answer(self, status, kind, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if kind:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.note(body)
        if self.headers["authorization"] != "Bearer secret":
            return self.answer(401, "text/plain", b"who are you?")
        message = json.loads(body)
        name = message.get("params", {}).get("name")
        result = lambda value: {"jsonrpc": "2.0", "id": message["id"], "result": value}
        if "id" not in message:
            return self.answer(202, None, b"")
        if message["method"] == "initialize":
            # Slow to start: the title of the run still has the server's name.
            time.sleep(0.5)
            value = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "tickets", "version": "1"}}
            pretty = json.dumps(result(value), indent=2).encode()
            return self.answer(200, "application/json; charset=utf-8", pretty, mcp_session_id="s-7")
        if name == "fail":
            return self.answer(500, "text/plain", b"out of tickets")
        if name == "break":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            return
        progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
        answer = result({"content": [{"type": "text", "text": "ticket 42"}]})
        events = "".join(f"event: message\ndata: {json.dumps(part)}\n\n" for part in (progress, answer))
        self.answer(200, "text/event-stream", (": first a comment\n\n" + events).encode())

    def do_GET(self):
        self.note("")
        told = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"id: 1\ndata: {json.dumps(told)}\n\n".encode())
        self.wfile.flush()
        # It stays open until the other side goes.
        self.rfile.read(1)
        self.close_connection = True

    def do_DELETE(self):
        self.note("")
        self.answer(204, None, b"")


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
server.serve_forever()
