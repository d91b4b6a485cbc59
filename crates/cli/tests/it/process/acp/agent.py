"""An ACP agent that does what its prompts say: each prompt is a JSON list of steps.

It writes all that it reads and sends, byte for byte, to the files `in` and `out` of the folder ACP_LOG, if there is one.
ACP_RESULT is its answer to `initialize`. It knows no library, so that what is on the wire is what is written here.
"""

import json
import os
import signal
import sys
import threading

folder = os.environ.get("ACP_LOG")
log_in = open(os.path.join(folder, "in"), "ab", buffering=0) if folder else None
log_out = open(os.path.join(folder, "out"), "ab", buffering=0) if folder else None
initialized = json.loads(os.environ.get("ACP_RESULT", '{"protocolVersion":1,"agentInfo":{"name":"scripted","version":"1.0"}}'))
writing = threading.Lock()
answers = {}
answered = threading.Condition()
sessions = set()


def write(data):
    with writing:
        if log_out:
            log_out.write(data)
        view = memoryview(data)
        while view:
            view = view[os.write(1, view):]


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")


def update(session, body):
    send({"method": "session/update", "params": {"sessionId": session, "update": body}})


def say(session, text):
    update(session, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})


def wait(ids):
    with answered:
        answered.wait_for(lambda: all(json.dumps(id) in answers for id in ids))
        return [answers[json.dumps(id)] for id in ids]


def step(session, name, *rest):
    if name == "raw":
        write(rest[0].encode() + b"\n")
    elif name == "bytes":
        write(rest[0].encode())
    elif name == "update":
        update(session, rest[0])
    elif name == "say":
        say(session, rest[0])
    elif name == "request":
        send({"id": rest[0], "method": rest[1], "params": {"sessionId": session, **rest[2]}})
        wait([rest[0]])
    elif name == "ask":
        for id, params in rest[0]:
            send({"id": id, "method": "session/request_permission", "params": {"sessionId": session, **params}})
        for id, answer in zip(rest[0], wait([id for id, _ in rest[0]])):
            say(session, json.dumps([id[0], answer.get("result", answer.get("error"))], sort_keys=True))
    elif name == "big":
        say(session, "x" * rest[0])
    elif name == "flood":
        for number in range(rest[0]):
            say(session, "y" * rest[1])
    elif name == "exit":
        os._exit(rest[0])
    elif name == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "wait":
        wait([rest[0]])
    elif name == "hang":
        signal.pause() if threading.current_thread() is threading.main_thread() else threading.Event().wait()


def prompt(message):
    session = message["params"]["sessionId"]
    steps = json.loads(message["params"]["prompt"][0]["text"])
    reason, result = "end_turn", {}
    for each in steps:
        if each[0] == "stop":
            reason = each[1]
        elif each[0] == "result":
            result.update(each[1])
        elif each[0] == "fail":
            return send({"id": message["id"], "error": {"code": each[1], "message": each[2]}})
        else:
            step(session, *each)
    send({"id": message["id"], "result": {"stopReason": reason, **result}})


def handle(message):
    method = message.get("method")
    if method is None and "id" in message:
        with answered:
            answers[json.dumps(message["id"])] = message
            answered.notify_all()
    elif method == "initialize":
        send({"id": message["id"], "result": initialized})
    elif method == "session/new":
        session = f"s{len(sessions)}-{os.getpid()}"
        sessions.add(session)
        send({"id": message["id"], "result": {"sessionId": session}})
    elif method in ("session/load", "session/resume"):
        session = message["params"]["sessionId"]
        if session == "unknown":
            return send({"id": message["id"], "error": {"code": -32002, "message": "no such session"}})
        if method == "session/load":
            say(session, "this was said before")
        send({"id": message["id"], "result": {"modes": None}})
    elif method == "session/prompt":
        threading.Thread(target=prompt, args=(message,), daemon=True).start()
    elif method == "session/cancel":
        pass
    elif "id" in message:
        send({"id": message["id"], "result": {}})


for line in sys.stdin.buffer:
    if log_in:
        log_in.write(line)
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if isinstance(message, dict):
        handle(message)
