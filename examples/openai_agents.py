"""OpenAI's Agents SDK: one agent hands a customer's message to a desk, which settles it.

make rehearse ENVIRONMENT=examples/openai_agents.py
"""

import random
from typing import Literal

from precis.environments.protocol import Nouns, Score

try:
    from agents import (
        Agent,
        MaxTurnsExceeded,
        ModelBehaviorError,
        OpenAIChatCompletionsModel,
        RunConfig,
        Runner,
        ToolsToFinalOutputResult,
        default_tool_error_function,
        function_tool,
    )
except ImportError as error:
    command = "pip install openai-agents"
    raise ImportError(f"The Agents SDK is missing: run `{command}`") from error

TURNS_MAX = 8
Decision = Literal["refund", "replace", "explain"]

nouns = Nouns("case", "cases", "message", "messages", success="settled")

DESKS = {
    "delivery": "I have waited for the {thing} for three weeks.",
    "repairs": "The {thing} does not switch on.",
    "billing": "You have charged the {thing} twice.",
}
THINGS = ["lamp", "radio", "kettle", "clock", "printer", "toaster"]
SETTLED = {"lost": "refund", "damaged": "replace", "in order": "explain"}

TRIAGE = "You read customers' messages. Hand each to the desk that it is for."
DESK = """You are the {desk} desk. Look the order up, and settle the case: refund what is lost,
replace what is damaged, and explain what is in order. Make one call at a time."""


def scenarios(split):
    seeds = range(200) if split == "train" else range(1000, 1050)
    return [{"id": f"message-{seed}", "seed": seed} for seed in seeds]


async def rollout(model, scenario):
    draw = random.Random(scenario["seed"])
    desk, state = draw.choice(list(DESKS)), draw.choice(list(SETTLED))
    message = DESKS[desk].format(thing=draw.choice(THINGS))
    case = Case(state)
    config = RunConfig(
        tracing_disabled=True,  # else each run is sent to OpenAI, with OPENAI_API_KEY
        tool_not_found_behavior="return_error_to_model",
        tool_error_formatter=case.refuse_unknown,
    )
    try:
        agent = triage_agent(model, case)
        run = await Runner.run(agent, message, max_turns=TURNS_MAX, run_config=config)
        case.illegal += case.decision is None  # it ended without a decision
    except MaxTurnsExceeded as error:
        run = error.run_data
    except ModelBehaviorError as error:  # a call that the SDK can't answer
        case.illegal += 1
        run = error.run_data
    right_desk = run.last_agent.name == desk
    right = right_desk and case.decision == SETTLED[state]
    metrics = {"turns": len(run.raw_responses), "illegal": case.illegal, "right_desk": right_desk}
    return Score(0.3 * right_desk + 0.7 * right, right, metrics)


class Case:
    """A customer's case, and its handling."""

    def __init__(self, state):
        self.state, self.decision, self.illegal = state, None, 0

    def refuse(self, context, error):
        """Answer a call of a tool that has failed."""
        self.illegal += 1
        return default_tool_error_function(context, error)

    def refuse_unknown(self, call):
        """Answer a call of a tool that the agent does not have."""
        self.illegal += 1
        return call.default_message


def triage_agent(model, case):
    """Return the agent that receives the customer's message, with one agent per desk to hand over
    to."""
    asked = OpenAIChatCompletionsModel(model.get_inference_name(), model.openai_client())

    @function_tool(failure_error_function=case.refuse)
    def look_up() -> str:
        """Look up the state of the order."""
        return f"The order is {case.state}."

    @function_tool(failure_error_function=case.refuse)
    def settle(decision: Decision) -> str:
        """End the case."""
        case.decision = decision
        return "Settled."

    def end_if_settled(context, results):
        return ToolsToFinalOutputResult(case.decision is not None, case.decision)

    desks = []
    for desk in DESKS:
        behaviour = {"tools": [look_up, settle], "tool_use_behavior": end_if_settled}
        rules = DESK.format(desk=desk)
        desks.append(Agent(desk, instructions=rules, model=asked, **behaviour))
    return Agent("triage", instructions=TRIAGE, model=asked, handoffs=desks)
