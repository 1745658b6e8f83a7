"""Blobs on JetStream: one message each up to 512 KiB, the object store above."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections import OrderedDict
from typing import Any

from ...events import Blob, blob_of
from ...events.errors import BlobMissingError, LogFullError
from .jetstream import WRONG_LAST_SEQUENCE, ApiError, JetStream
from .streams import BLOB_ROOT, BLOBS

INLINE_BYTES = 512 * 1024
_BUCKET = "EVOLOG_OBJECTS"
_REMEMBERED = 20_000


class NatsBlobs:
    """`evolog.infra.log.Blobs` on a stream of a NATS server."""

    def __init__(self, js: JetStream) -> None:
        self._js = js
        self._known: OrderedDict[str, None] = OrderedDict()
        self._objects: Any = None

    async def put(self, *contents: bytes) -> list[Blob]:
        blobs = [blob_of(content) for content in contents]
        missing = {
            blob.sha256: content
            for blob, content in zip(blobs, contents, strict=True)
            if blob.sha256 not in self._known
        }
        if missing:
            await asyncio.gather(*(self._put(digest, content) for digest, content in missing.items()))
        return blobs

    async def _put(self, digest: str, content: bytes) -> None:
        if len(content) > INLINE_BYTES:
            await self._put_object(digest, content)
        else:
            try:
                # Stored once: refused where the subject has a message already.
                headers = {"Nats-Expected-Last-Subject-Sequence": "0"}
                await self._js.publish(f"{BLOB_ROOT}.{digest}", content, headers)
            except ApiError as error:
                if error.code != WRONG_LAST_SEQUENCE:
                    raise
        self._known[digest] = None
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    async def get(self, blob: Blob) -> bytes:
        if blob.size > INLINE_BYTES:
            content = await self._get_object(blob)
        else:
            message = await self._js.direct_get(BLOBS, {"last_by_subj": f"{BLOB_ROOT}.{blob.sha256}"})
            content = None if message is None else message.data
        if content is None:
            raise BlobMissingError(
                f"blob {blob.sha256} ({blob.size} bytes) is not in the store at {self._js.place}: "
                "it was withdrawn, or the store is not the one that the log was written with"
            )
        if hashlib.sha256(content).hexdigest() != blob.sha256:
            raise BlobMissingError(
                f"blob {blob.sha256} in the store at {self._js.place} has other content: its block is damaged"
            )
        return content

    async def _bucket(self) -> Any:
        if self._objects is None:
            import nats.js.errors
            from nats.js.api import ObjectStoreConfig

            context = self._js.client.jetstream()
            try:
                self._objects = await context.object_store(_BUCKET)
            except nats.js.errors.NotFoundError:
                self._objects = await context.create_object_store(_BUCKET, config=ObjectStoreConfig())
        return self._objects

    async def _put_object(self, digest: str, content: bytes) -> None:
        import nats.js.errors

        bucket = await self._bucket()
        try:
            try:
                await bucket.get_info(digest)
            except nats.js.errors.NotFoundError:
                await bucket.put(digest, content)
        except nats.js.errors.APIError as error:
            raise LogFullError(f"blob {digest} ({len(content)} bytes) cannot be stored: {error}") from None

    async def _get_object(self, blob: Blob) -> bytes | None:
        import nats.js.errors

        bucket = await self._bucket()
        # get() into memory is quadratic (facts: blobs and scale).
        with tempfile.TemporaryFile() as file:
            try:
                await bucket.get(blob.sha256, writeinto=file)
            except nats.js.errors.NotFoundError:
                return None
            file.seek(0)
            return file.read()
