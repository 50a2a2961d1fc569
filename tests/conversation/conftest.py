"""
Servers, as the tests of the client have them.
"""

from tests.client.conftest import serve

__all__ = ["serve"]
