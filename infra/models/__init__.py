"""Calling models: settings, prices, the limiter of each provider, and the client that records every call."""

from .client import Completion, Message, ModelCall, ModelClient, Spend
from .gateway import Gateway, ModelFacts, shared_gateway
from .limiter import Limiter, shared_limiter, shared_tokens
from .outcomes import Reply
from .prices import Price, price_in_map, price_per_million
from .settings import ModelSettings

__all__ = [
    "Completion",
    "Gateway",
    "Limiter",
    "Message",
    "ModelCall",
    "ModelClient",
    "ModelFacts",
    "ModelSettings",
    "Price",
    "Reply",
    "Spend",
    "price_in_map",
    "price_per_million",
    "shared_gateway",
    "shared_limiter",
    "shared_tokens",
]
