"""Subject tokens: how an id, which may hold any text, becomes one token of a subject."""

import hashlib
import string

PLAIN = frozenset((string.ascii_letters + string.digits + "_-").encode())


def token(id: str) -> str:
    if id == "":
        return "-"
    if id == "-":
        return "=2D"
    data = id.encode("utf-8")
    escaped = "".join(chr(byte) if byte in PLAIN else f"={byte:02X}" for byte in data)
    if len(escaped) <= 64:
        return escaped
    return "=h" + hashlib.sha256(data).hexdigest()[:32]
