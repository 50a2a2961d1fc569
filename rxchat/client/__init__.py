"""
The client: a request by aiohttp, its answer through the pipeline.
"""

from rxchat.client.call import Call
from rxchat.client.http_body import HttpSettings
from rxchat.client.model import ChatModel

__all__ = ["Call", "ChatModel", "HttpSettings"]
