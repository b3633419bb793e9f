"""The Hub: upload of a folder as one commit of a model's repository."""

import os
from pathlib import Path

from precis.environment import Variables
from precis.errors import ConfigError, ModelError
from precis.llm.providers import sendable
from precis.llm.redaction import Redactor
from precis.models.base import HUB_NAME


def token_for_hub() -> str:
    """Return the token for writing to the Hub. Raises ConfigError if it is not set, or not valid in
    a header."""
    token = Variables().hf_token
    if token is None:
        raise ConfigError(
            "HF_TOKEN is not set.",
            "Make a token with write access on huggingface.co, and set it in the environment or "
            "in .env.",
        )
    return sendable(token.get_secret_value(), "HF_TOKEN")


def check_repo(repo: str) -> None:
    """Raise ConfigError for an invalid name of a repository."""
    if not HUB_NAME.fullmatch(repo):
        raise ConfigError(f"--repo {repo!r} names no repository.", "Write OWNER/NAME.")


def push_folder(folder: Path, repo: str, token: str, private: bool, message: str) -> str:
    """Upload a folder to a model's repository, created if missing; return the commit's address.

    `private` applies to a created one. Raises ModelError if the Hub refuses or does not answer.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)
    try:
        # Without --private the owner's default applies.
        api.create_repo(repo, private=private or None, exist_ok=True)
        commit = api.upload_folder(repo_id=repo, folder_path=folder, commit_message=message)
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise ModelError(
                f"The Hub refuses to write to {repo} ({status}): HF_TOKEN must be a valid token "
                "with write access to that owner's repositories."
            ) from error
        said = Redactor(token).clean_text(error.server_message or str(error))
        detail = " ".join(said.split())[:300]
        raise ModelError(f"The Hub did not take {repo} ({status}: {detail}).") from error
    except ValueError as error:  # raised for the card's metadata, or for a file's announcement
        said = Redactor(token).clean_text(" ".join(str(error).split()))
        raise ModelError(f"The Hub did not take {repo}: {said}") from error
    except RuntimeError as error:  # raised for a large file's upload, with the cause inside
        said = Redactor(token).clean_text(str(error))
        raise ModelError(said, "Push again: what is there already is not sent twice.") from error
    except (httpx.TransportError, OSError) as error:
        raise ModelError(
            f"The Hub at {api.endpoint} does not answer ({error or type(error).__name__}).",
            "See whether it can be reached, and push again; what is there already is not sent "
            "twice.",
        ) from error
    return str(commit.commit_url)
