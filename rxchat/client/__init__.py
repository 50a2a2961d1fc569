"""
The client: a request by aiohttp, its answer through the pipeline.
"""

from rxchat.client.call import Call
from rxchat.client.model import ChatModel
from rxchat.client.rules import StopWhen
from rxchat.client.settings import HttpSettings, Retry
from rxchat.client.timings import Timings

__all__ = ["Call", "ChatModel", "HttpSettings", "Retry", "StopWhen", "Timings"]
