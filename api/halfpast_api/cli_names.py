"""Names that commands take, and what a shell may complete them to."""

from typing import Annotated

import typer

from halfpast_api.cli_candidates import endpoints, groups, topics

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=topics)]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=groups)]
EndpointName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=endpoints)]
OfTopic = Annotated[
    str | None,
    typer.Option("--topic", help="Of this topic only.", autocompletion=topics),
]
