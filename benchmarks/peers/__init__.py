"""
The peers: what else reads these streams, each as a subject. One that is not installed is skipped, and said so.

Where a peer lets its transport be replaced, it reads from the mock transport of its own HTTP library, which never waits: its best case. Where it does not, it
reads over loopback from the server in another process, and its name says so. All are imported by name, when they are opened.
"""

from benchmarks.peers import of_anthropic, of_httpx_sse, of_langchain, of_litellm, of_openai, of_pydantic_ai
from benchmarks.subjects import Subject

__all__ = ["PEERS"]

PEERS: tuple[Subject, ...] = (
    *of_httpx_sse.SUBJECTS,
    *of_openai.SUBJECTS,
    *of_anthropic.SUBJECTS,
    *of_langchain.SUBJECTS,
    *of_pydantic_ai.SUBJECTS,
    *of_litellm.SUBJECTS,
)
