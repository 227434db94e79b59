"""`fshipper completion`: its command."""

from shipper.commands import Command, program_of
from shipper.help.options import CompletionOptions

app = program_of(
    {
        "completion": Command(
            CompletionOptions,
            "shipper.help.app:run",
            ("completion bash > ~/.local/share/bash-completion/completions/fshipper", "completion zsh"),
        )
    }
)
