"""The values from the environment or `.env`: keys, and the variables of the seed scripts.

Secrets are read only here. They are `SecretStr`, so that a printed record shows stars.
"""

import io
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv.parser import parse_stream
from pydantic import AfterValidator, AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from precis.errors import ConfigError
from precis.record import Matching

_PRIVATE = 0o700


WeaveProject = Annotated[
    str, Matching(r"^[^/]+/[^/]+$", "is ENTITY/PROJECT, as W&B's address of the project ends")
]


class _Environment(BaseSettings):
    """Values of the environment and of `.env`; empty ones count as unset."""

    model_config = SettingsConfigDict(
        env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )

    def __init__(self, **given: Any) -> None:
        file = self.model_config["env_file"]
        try:
            if file and os.path.isfile(str(file)):
                for read in parse_stream(io.StringIO(Path(str(file)).read_text("utf-8"))):
                    if read.error:
                        raise ConfigError(
                            f"The file .env can't be read: line {read.original.line} is not "
                            "NAME=value, or has a quote that is not closed."
                        )
            super().__init__(**given)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(f"The file .env can't be read: {reason}.") from error

    def keys(self) -> dict[str, str]:
        """Return the keys that are set, in plain text, by variable."""
        keys = {}
        for name, value in self:
            if isinstance(value, SecretStr):
                keys[name.upper()] = value.get_secret_value()
        return keys


def _default_store(known: dict[str, Any]) -> str:
    bucket = known["backup_bucket"]
    return f"s3://{bucket.removeprefix('s3://')}" if bucket else ".precis/store"


class Variables(_Environment):
    """The variables that Précis reads."""

    wandb_api_key: SecretStr | None = None
    wandb_project: str = "precis"
    tinker_api_key: SecretStr | None = None
    openrouter_api_key: SecretStr | None = None
    gemini_api_key: SecretStr | None = None
    openai_api_key: SecretStr | None = None
    judge_api_key: SecretStr | None = None
    second_judge_api_key: SecretStr | None = None
    contender_api_key: SecretStr | None = None
    opponent_api_key: SecretStr | None = None
    precis_api_key: SecretStr | None = None
    hf_token: SecretStr | None = None
    openpipe_api_key: SecretStr | None = None
    openpipe_base_url: str = "https://api.openpipe.ai/api/v1"
    langfuse_public_key: SecretStr | None = None
    langfuse_secret_key: SecretStr | None = None
    langfuse_host: str = Field(
        "https://cloud.langfuse.com",
        validation_alias=AliasChoices("LANGFUSE_HOST", "LANGFUSE_BASE_URL"),
    )
    weave_project: WeaveProject | None = None
    """`entity/project`; with WANDB_API_KEY, completions go there."""
    weave_url: str = Field("https://trace.wandb.ai", validation_alias="WF_TRACE_SERVER_URL")
    notify_url: SecretStr | None = Field(None, validation_alias="PRECIS_NOTIFY_URL")
    prefect_api_url: str | None = None
    prefect_api_auth_string: SecretStr | None = None
    prefect_api_key: SecretStr | None = None
    prefect_server_api_auth_string: SecretStr | None = None
    prefect_server_database_connection_url: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices(
            "PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL"
        ),
    )
    train_size: int = Field(3500, ge=1)
    val_size: int = Field(91, ge=1)
    # No shell has expanded a `~` in .env.
    home: Annotated[Path, AfterValidator(lambda path: Path(os.path.expanduser(path)))] = Field(
        Path(".precis"), validation_alias="PRECIS_HOME"
    )
    backup_bucket: str | None = None
    store: str = Field(
        default_factory=_default_store,
        validation_alias="PRECIS_STORE",
    )


class S3Environment(_Environment):
    """Access to a bucket. If no keys are set, boto3 uses a profile or the machine's role, like
    AWS's own tools."""

    model_config = SettingsConfigDict(populate_by_name=True)

    aws_access_key_id: SecretStr | None = None
    aws_secret_access_key: SecretStr | None = None
    aws_session_token: SecretStr | None = None
    aws_region: str | None = Field(
        None, validation_alias=AliasChoices("AWS_REGION", "AWS_DEFAULT_REGION")
    )
    aws_endpoint_url: str | None = Field(
        None, validation_alias=AliasChoices("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    )
    create_bucket: bool = Field(False, validation_alias="PRECIS_S3_CREATE_BUCKET")
    """True lets preflight create a missing bucket."""
    sse: Literal["AES256", "aws:kms"] | None = Field(None, validation_alias="PRECIS_S3_SSE")
    """Server-side encryption to ask for; the bucket's own default if not given."""
    checksum: Literal["SHA256", "none"] = Field("SHA256", validation_alias="PRECIS_S3_CHECKSUM")
    """`none` for servers without S3's checksum headers; restored files are still checked against
    their manifest."""
    addressing: Literal["path", "virtual", "auto"] = Field(
        default_factory=lambda known: "path" if known["aws_endpoint_url"] else "auto",
        validation_alias="PRECIS_S3_ADDRESSING",
    )
    """The place of the bucket's name: in the URL's path, as most servers other than AWS expect."""
    tries_max: int = Field(8, ge=1, validation_alias="PRECIS_S3_TRIES_MAX")
    """Attempts of one request; the pauses between eight of them add up to a minute at most."""
    timeout_s: float = Field(30, gt=0, validation_alias="PRECIS_S3_TIMEOUT_S")
    """Longest silence of the server within a request, in seconds."""

    def in_clear(self) -> list[str | None]:
        """Return the key's id, the key and the session's token, if set, in plain text."""
        keys = (self.aws_access_key_id, self.aws_secret_access_key, self.aws_session_token)
        return [key.get_secret_value() if key else None for key in keys]


def private_home() -> Path:
    """Return the folder of this machine's own files, created if missing, readable by its owner
    only: it has Prefect's database, with the key of its Secret blocks."""
    home = Variables().home
    try:
        home.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"Can't make the folder {home} for this machine's own files: {error.strerror}.",
            "Let PRECIS_HOME name a folder that this user can write.",
        ) from error
    found = home.stat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:
        home.chmod(_PRIVATE)
    return home


def key_variables() -> dict[str, SecretStr | None]:
    """Return the variables of all keys with their values here, without a Prefect server's own
    passwords."""
    keys = {}
    for settings in (Variables(), S3Environment()):
        for name, value in settings:
            field = type(settings).model_fields[name]
            # Secrets with an alias, such as PRECIS_NOTIFY_URL, are addresses, not keys.
            is_key = field.annotation == (SecretStr | None) and field.validation_alias is None
            if is_key and not name.startswith("prefect"):
                keys[name.upper()] = value
    return keys


def block_name(variable: str) -> str:
    """Return the name of a key's Secret block in Prefect."""
    return f"precis-{variable.lower().replace('_', '-')}"


StoreUrl = Annotated[str, AfterValidator(lambda url: url or Variables().store)]
"""A folder or s3://bucket/prefix. Empty becomes the variable PRECIS_STORE, or else .precis/store:
a field that may be left out has `Field("", validate_default=True)`."""
