"""A browser as small as tests/page.sh needs one. PORT: where the page is; CA: a file with the certificate, if it is TLS."""

import http.client, os, re, socket, ssl, time, urllib.parse

PORT = os.environ["PORT"]
PAGES = ["/", "/volumes", "/volume?name=v", "/disks", "/hosts", "/slow", "/what-if", "/what-if?lose=1&add=1G&layout=v%3Draid1"]
LOGOUT = '<button type="submit">Log out</button>'
# The cookies that were set, with what goes with them.
SET = []

def ask(method, path, headers={}, body=None):
    if ca := os.environ.get("CA"):
        line = http.client.HTTPSConnection("127.0.0.1", int(PORT), timeout=30, context=ssl.create_default_context(cafile=ca))
    else:
        line = http.client.HTTPConnection("127.0.0.1", int(PORT), timeout=30)
    line.request(method, path.replace("<", "%3C").replace(">", "%3E"), body, headers)
    answer = line.getresponse()
    answer.text = answer.read().decode()
    return answer

def get(path, cookie=""):
    return ask("GET", path, {"Cookie": cookie})

def post(path, cookie, lines={}, **form):
    headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded", **lines}
    return ask("POST", path, headers, urllib.parse.urlencode(form))

def log_in(name):
    answer = post("/login", "", name=name, password="correct horse")
    assert answer.status == 303, answer.text
    SET.append(answer.headers["Set-Cookie"])
    return SET[-1].split(";")[0]

def csrf(cookie):
    return re.search('name="csrf" value="([0-9a-f]{64})"', get("/slow", cookie).text)[1]

def act(cookie, **form):
    return post("/do", cookie, csrf=csrf(cookie), **form)

def word(text):
    return re.search('<p class="word">([a-z]+)</p>', text)[1]

def connect():
    return socket.create_connection(("127.0.0.1", int(PORT)), timeout=30)

def raw(said):
    """What comes back for bytes that are no request, perhaps."""
    line = connect()
    try:
        line.sendall(said)
        return line.recv(4096)
    except ConnectionResetError:
        return b""
