"""A page that attacks Jupyter, and the program in a sandbox that serves it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAGE = """
<!doctype html><title>hostile</title><link rel=prefetch href="{base}logout"><script>
const base = '{base}', results = {{}};
const deny = () => {{ throw new Error('denied') }};
const fails = (target, good) => new Promise((resolve, reject) => {{
  target[good] = resolve; target.onerror = reject; target.onclose = reject;
}});
const socket = url => fails(new WebSocket(url.replace('http', 'ws')), 'onopen');
const frame = url => new Promise(resolve => {{
  const made = document.createElement('iframe');
  made.onload = () => resolve(made); made.src = url; document.body.append(made);
}});
const popup = async url => {{
  const made = open(url);
  while (made.document.URL === 'about:blank') await new Promise(go => setTimeout(go, 50));
  return made;
}};
const request = url => {{
  const sent = new XMLHttpRequest();
  sent.open('GET', url); sent.withCredentials = true; sent.send();
  return fails(sent, 'onload');
}};
const attempts = {{ {attempts} }};
addEventListener('load', async () => {{
  for (const [name, attempt] of Object.entries(attempts)) {{
    const late = new Promise((_, reject) => setTimeout(() => reject(new Error('silent')), 5000));
    try {{ results[name] = 'got ' + await Promise.race([attempt(), late]); }}
    catch (error) {{ results[name] = null; }}
  }}
  const form = document.createElement('form');
  form.method = 'POST'; form.action = base + 'api/contents'; form.target = '_blank';
  document.body.append(form); form.submit();
  fetch(base + 'api/contents', {{method: 'POST', mode: 'no-cors', credentials: 'include'}});
  window.own = await (await fetch('own')).text();
  window.done = true;
}});
</script><body></body>
"""


PROGRAM = textwrap.dedent(
    """
    import sys
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            body = open("/tmp/page.html", "rb").read()
            if self.path.endswith("own"):
                body = b"own"
            if self.path.endswith("cookies"):
                body = self.headers.get("Cookie", "").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Set-Cookie", "stolen=yes; Path=/")
            self.send_header("Service-Worker-Allowed", "/")
            self.end_headers()
            self.wfile.write(body)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
    """
)
"""Serves ``/tmp/page.html`` at the port that it is given; ``own`` and ``cookies`` are texts."""


def hostile_page(base: str, attempts: Mapping[str, str]) -> str:
    """A page that makes the attempts at Jupyter's address ``base``, then sets ``window.done``.

    ``window.results`` has ``None`` for each that failed. An attempt is an expression.
    """
    made = ",".join(f"{name!r}: async () => {code}" for name, code in attempts.items())
    return _PAGE.format(base=base, attempts=made)
