"""channels_redis, the layer of Django Channels: groups of channels in two layers, as in two processes."""

import asyncio
import time

from channels_redis.core import RedisChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer
from driver import HOST, PORT, kill, run, version

version("channels_redis")


async def through(kind):
    one, two = (kind(hosts=[(HOST, PORT)]) for _ in range(2))
    channels = [await two.new_channel() for _ in range(3)]
    for channel in channels:
        await two.group_add("room", channel)
    number = 0

    async def send():
        nonlocal number
        number += 1
        await one.group_send("room", {"type": "chat", "number": number})
        for channel in channels:
            while (await asyncio.wait_for(two.receive(channel), 2))["number"] < number:
                pass

    async def sends():
        deadline = time.monotonic() + 20
        while True:
            try:
                return await send()
            except Exception:  # the server may be away
                assert time.monotonic() < deadline, "no message arrives"
                await asyncio.sleep(0.1)

    for _ in range(20):
        await send()
    await asyncio.to_thread(kill)
    for _ in range(20):
        await sends()
    return number


def groups():
    sent = [asyncio.run(through(kind)) for kind in (RedisChannelLayer, RedisPubSubChannelLayer)]
    return f"{sum(sent)} messages to groups"


run({"groups": groups})
