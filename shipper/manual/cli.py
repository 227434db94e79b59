"""`fshipper completion`: its command."""

from shipper.commands import Command, program_of
from shipper.manual.options import CompletionOptions

app = program_of(
    {
        "completion": Command(
            CompletionOptions,
            "shipper.manual.app:run",
            ("completion bash > ~/.local/share/bash-completion/completions/fshipper", "completion zsh"),
        )
    }
)
