"""The harness: one request with two messages, and no tools."""

import openai
import verifiers.v1 as vf


class OneRequestHarness(vf.Harness[vf.HarnessConfig]):
    """Sends one request from this process: there is no program to sandbox.

    Temperature and the like are the run's; the summary's length sets the most tokens.
    """

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Send the request through verifiers' server, which records the reply."""
        system, user = self.resolve_text_prompt(data)
        async with openai.AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            await client.chat.completions.create(
                model=ctx.model,
                messages=[
                    {"role": "system", "content": system or ""},
                    {"role": "user", "content": user or ""},
                ],
                max_tokens=data.tokens_max,
            )
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")
