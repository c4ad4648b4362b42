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
    heard = {channel: set() for channel in channels}

    async def receive(channel):
        while True:
            try:
                heard[channel].add((await two.receive(channel))["number"])
            except Exception:  # the server is away
                await asyncio.sleep(0.1)

    receivers = [asyncio.create_task(receive(channel)) for channel in channels]
    number = 0

    async def arrives():
        """Sends messages until one arrives in all channels: those of the time without a server are lost."""
        nonlocal number
        deadline = time.monotonic() + 20
        while True:
            number += 1
            try:
                for channel in channels:
                    await two.group_add("room", channel)
                await one.group_send("room", {"type": "chat", "number": number})
                await asyncio.sleep(0.05)
            except Exception:  # the server is away
                await asyncio.sleep(0.1)
            if all(number in numbers for numbers in heard.values()):
                return
            assert time.monotonic() < deadline, f"no message arrives: {kind.__module__}"

    for _ in range(20):
        await arrives()
    await asyncio.to_thread(kill)
    for _ in range(20):
        await arrives()
    for receiver in receivers:
        receiver.cancel()
    return sum(len(numbers) for numbers in heard.values())


def groups():
    sent = [asyncio.run(through(kind)) for kind in (RedisChannelLayer, RedisPubSubChannelLayer)]
    return f"{sum(sent)} messages from groups"


run({"groups": groups})
