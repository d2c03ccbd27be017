"""The broker on asyncio: listening, speaking, and performing what the engine decides."""
