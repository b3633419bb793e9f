"""What comes from the environment or `.env`: keys, and the variables of the seed scripts.

The one place where secrets are looked up. They are `SecretStr`, so that a printed record
shows stars.
"""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Environment(BaseSettings):
    """The variables that Précis reads; empty ones count as unset."""

    model_config = SettingsConfigDict(
        env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )

    wandb_api_key: SecretStr | None = None
    openrouter_api_key: SecretStr | None = None
    gemini_api_key: SecretStr | None = None
    openai_api_key: SecretStr | None = None
    judge_api_key: SecretStr | None = None
    train_size: int = Field(3500, ge=1)
    val_size: int = Field(91, ge=1)
    home: Path = Field(Path(".precis"), validation_alias="PRECIS_HOME")
    store: str = Field(".precis/store", validation_alias="PRECIS_STORE")

    def keys(self) -> dict[str, str]:
        """The keys that are set, in clear, by the name of their variable."""
        return {
            name.upper(): value.get_secret_value()
            for name, value in self
            if isinstance(value, SecretStr)
        }
