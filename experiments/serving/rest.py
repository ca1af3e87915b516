"""TF Serving's REST API, the page, health and metrics, on aiohttp."""

import asyncio
import json
import math
import os
import re

from absl import logging
from aiohttp import web
from google.protobuf import json_format

from experiments.serving import json_tensors, model_card
from experiments.serving.engine import Engine
from experiments.serving.errors import RequestError, invalid, shown
from experiments.serving.metrics import Call
from experiments.serving.request_queue import too_late
from experiments.serving.versions import parse_version

PAGE = os.path.join(os.path.dirname(__file__), "page.html")
TIMEOUT = "X-Timeout-Seconds"
PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)"
    r"(/versions/(?P<version>[^/:]*)|/labels/(?P<label>[^/:]*))?"
    r"(?P<what>/metadata|:[^/:]*)?"
)
# The page brings all it needs along, and speaks only to where it came from.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'"
)


class RestApi:
    """The handlers of the web application.

    Args:
        engine: answers.
        largest_body: bytes that a request may have.
    """

    def __init__(self, engine: Engine, largest_body: int) -> None:
        self.engine = engine
        self.application = web.Application(
            client_max_size=largest_body, middlewares=[_errors_as_json]
        )
        self.application.add_routes(
            [
                web.get("/", self._page),
                web.get("/card", self._card),
                web.get("/healthz", self._health),
                web.get("/monitoring/prometheus/metrics", self._metrics),
                web.get("/v1/models/{rest:.*}", self._get),
                web.post("/v1/models/{rest:.*}", self._post),
            ]
        )

    async def _page(self, _):
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}
        return web.FileResponse(PAGE, headers=headers)

    async def _card(self, _):
        with self.engine.versions.use() as model:
            name, signatures = self.engine.name, model.signatures
            data = model_card.page_data(name, model.version, model.card, signatures)
        return _json(data)

    async def _health(self, _):
        if self.engine.queue.closed:
            raise RequestError("UNAVAILABLE", "the server is shutting down")
        return _json({"status": "ok", "version": self.engine.versions.current.version})

    async def _metrics(self, _):
        return web.Response(
            body=self.engine.metrics.text(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _get(self, request):
        version, what = self._parse(request)
        if what == "/metadata":
            response = self.engine.metadata(version)
        elif what is None:
            response = self.engine.status(version)
        else:
            raise RequestError(
                "NOT_FOUND", f"GET {shown(request.path)}: {what} wants a POST"
            )
        return _json(
            json_format.MessageToDict(
                response,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
        )

    async def _post(self, request):
        call = Call("rest")
        status = "INTERNAL"
        try:
            response = await self._predict(request, call)
            status = "OK"
            return response
        except RequestError as error:
            status = error.code
            raise
        except web.HTTPException as error:
            status = error.reason.upper().replace(" ", "_")
            raise
        finally:
            self.engine.metrics.ended(call, status)

    async def _predict(self, request, call):
        version, what = self._parse(request)
        if what != ":predict":
            raise invalid(
                f"POST {shown(request.path)}: expected :predict, with the name of a "
                "signature as signature_name"
            )
        seconds = self.engine.queue.seconds(_asked_seconds(request))
        try:
            body = await request.read()
        except web.RequestPayloadError as error:
            raise invalid(f"the body cannot be read: {shown(str(error))}") from error

        def work():
            content = json_tensors.read_body(body)
            outputs = self.engine.predict(
                call,
                version,
                content.get("signature_name", ""),
                lambda signature: json_tensors.to_arrays(content, signature),
            )
            rows = "instances" in content
            return _bytes(json_tensors.to_json(outputs, rows=rows))

        future = asyncio.wrap_future(self.engine.queue.submit(work, seconds))
        try:
            answer = await asyncio.wait_for(future, seconds)
        except TimeoutError:
            raise too_late(seconds) from None
        return web.Response(body=answer, content_type="application/json")

    def _parse(self, request):
        """Returns the version and what is asked of it; the name must be right."""
        match = PATH.fullmatch(request.path)
        if match is None:
            raise RequestError(
                "NOT_FOUND",
                f"{request.method} {shown(request.path)}, expected "
                "/v1/models/NAME[/versions/N][/metadata|:predict]",
            )
        self.engine.check_name(match["name"])
        if match["label"] is not None:
            raise invalid(
                f"label {shown(match['label'])}: versions have no labels here, "
                "expected /versions/N or neither"
            )
        asked = match["version"]
        return (None if asked is None else parse_version(asked)), match["what"]


def _asked_seconds(request):
    text = request.headers.get(TIMEOUT)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise invalid(f"{TIMEOUT} is {shown(text)}, expected seconds above 0")
    return seconds


@web.middleware
async def _errors_as_json(request, handler):
    """Answers with {"error": ...}, whatever went wrong."""
    try:
        return await handler(request)
    except RequestError as error:
        return _json({"error": str(error)}, error.http_status)
    except web.HTTPRequestEntityTooLarge as error:
        return _json({"error": f"the body is too large: {error.text}"}, 413)
    except web.HTTPException as error:
        said = f"{request.method} {shown(request.path)}: {error.reason}"
        allowed = {k: v for k, v in error.headers.items() if k == "Allow"}
        return _json({"error": said}, error.status, allowed)
    except Exception as error:
        logging.exception("%s %s", request.method, request.path)
        return _json({"error": f"internal error: {type(error).__name__}"}, 500)


def _bytes(content):
    return json.dumps(content, ensure_ascii=False).encode("utf-8")


def _json(content, status=200, headers=None):
    return web.Response(
        body=_bytes(content),
        status=status,
        headers=headers,
        content_type="application/json",
    )
