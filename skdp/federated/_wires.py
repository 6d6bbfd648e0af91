"""Connections, plain or through TLS: bytes as they come, whoever sends them.

Messages prove themselves and shares are masked, so that TLS adds one thing: who reads
on the way sees no sums.
"""

from __future__ import annotations

import socket
import ssl

from skdp.federated._frames import Garbage, Inbox, Tagged

_AT_ONCE = 1 << 16


def connected(
    address: tuple[str, int], patience: float, tls: ssl.SSLContext | None
) -> socket.socket:
    """A connection to the coordinator.

    Raises
    ------
    OSError
        If there is none, or TLS finds somebody else there.
    """
    wire = socket.create_connection(address, timeout=patience)
    # Small messages, which must not wait for each other.
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None:
        return wire
    try:
        return tls.wrap_socket(wire, server_hostname=address[0])
    except OSError:
        wire.close()
        raise


class Wire:
    """A connection that was accepted, and whose it is; None if nobody's yet.

    Parameters
    ----------
    connection : socket
    longest : int
        Bytes of the longest message that can be meant.
    patience : float
        Seconds after which it is given up that takes no bytes.
    tls : SSLContext or None
    """

    def __init__(
        self,
        connection: socket.socket,
        longest: int,
        patience: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self._patience, self._inbox = patience, Inbox(longest)
        self.party: int | None = None
        self._is_greeted = tls is None
        self.socket = connection
        if tls is not None:
            # Later, and bit by bit: nobody waits for a stranger that says nothing.
            self.socket = tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )

    def messages(self) -> list[Tagged]:
        """What has come and is complete; never waits.

        Raises
        ------
        Garbage, OSError
            If nothing more can come.
        """
        try:
            return self._inbox.feed(self._bytes())
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return []

    def _bytes(self) -> bytes:
        if isinstance(self.socket, ssl.SSLSocket) and not self._is_greeted:
            self.socket.do_handshake()
            self._is_greeted = True
        found = self.socket.recv(_AT_ONCE)
        if not found:
            raise Garbage
        # What TLS has taken from the wire already wakes nobody.
        while isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
            found += self.socket.recv(self.socket.pending())
        return found

    def send(self, packed: bytes) -> None:
        """Send it all.

        Raises
        ------
        OSError
            If the other side does not take it in time.
        """
        self.socket.settimeout(self._patience)
        try:
            self.socket.sendall(packed)
        finally:
            self.socket.setblocking(False)
