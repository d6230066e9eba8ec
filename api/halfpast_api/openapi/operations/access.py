"""Who may do what: keys, namespaces, and the trail of administrative acts."""

from halfpast_api.access.key_bodies import (
    KeyBody,
    KeyChange,
    KeyListView,
    KeyView,
    NewKeyView,
    NewSigningView,
    RotateBody,
)
from halfpast_api.access.namespace_handlers import (
    DeletedNamespaceView,
    NamespaceBody,
    NamespaceListView,
    NamespaceView,
)
from halfpast_api.access.trail_handlers import TrailPageView, WhoView
from halfpast_api.openapi import codes, parameters, samples
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag

TAG = Tag(
    "Keys",
    "API keys with scopes, such as `publish:orders-*`, or a role. A secret is shown "
    "once; two live side by side while a key is rotated.",
)
NAMESPACE_TAG = Tag(
    "Namespaces",
    "Tenants: what belongs to one is not there for another. And who did what.",
)
_KEYS, _KEY = "/v1/keys", "/v1/keys/{id}"
_NAMESPACES, _NAMESPACE = "/v1/namespaces", "/v1/namespaces/{name}"
_ID = parameters.path(
    "id",
    "The key's id: what stands behind `hp_` in it.",
    {"type": "string", "pattern": "^[a-z0-9]{8}$"},
    samples.KEY_ID,
)
_NAME = parameters.path(
    "name",
    "The namespace.",
    {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$"},
    "acme",
)
_OF_NAMESPACE = parameters.query(
    "namespace",
    "Of which namespace; `*` is all, for whoever is bound to none.",
    {"type": "string"},
    "acme",
)
_NEW = Reply("The key, with its secret.", NewKeyView, ("ETag", "Location"))
_ROTATED = Reply("The key, with its new secret.", NewKeyView, ("ETag",))
_SIGNING = Reply("The key, with its new signing secret.", NewSigningView, ("ETag",))
_KEY_REPLY = Reply("The key.", KeyView, ("ETag",))
_GRANT = (
    *codes.BODY,
    *codes.METADATA,
    *codes.NAMESPACE,
    "invalid_scope",
    "invalid_settings",
    "invalid_time",
    "several_times",
)

_KEY_OPERATIONS = (
    Operation(
        method="POST",
        template=_KEYS,
        name="createKey",
        tag=TAG.name,
        summary="Create a key; its secret is shown this once",
        text="A role, or scopes of its own. A key cannot give what it does not have.",
        body=KeyBody,
        replies={201: _NEW},
        problems=_GRANT,
        examples=(
            Example(
                text="For a shop, for a year",
                body={
                    "description": "shop, production",
                    "scopes": ["publish:orders-*", "consume"],
                    "expires_in": "P365D",
                },
                status=201,
            ),
        ),
    ),
    Operation(
        method="GET",
        template=_KEYS,
        name="listKeys",
        tag=TAG.name,
        summary="List keys, without secrets",
        parameters=(_OF_NAMESPACE, parameters.LIMIT, parameters.PAGE_TOKEN),
        replies={200: Reply("A page of keys.", KeyListView)},
        problems=(*codes.METADATA, *codes.PAGE, "unknown_namespace"),
        examples=(Example(text="The first page"),),
    ),
    Operation(
        method="GET",
        template=_KEY,
        name="getKey",
        tag=TAG.name,
        summary="Look at a key",
        parameters=(_ID,),
        replies={200: _KEY_REPLY},
        problems=codes.KEY,
        examples=(Example(text="A key"),),
    ),
    Operation(
        method="PATCH",
        template=_KEY,
        name="changeKey",
        tag=TAG.name,
        summary="Change what a key may do, and for how long",
        parameters=(_ID, parameters.IF_MATCH),
        body=KeyChange,
        replies={200: _KEY_REPLY},
        problems=(*codes.KEY, *_GRANT, *codes.VERSION, "key_revoked"),
        examples=(Example(text="It only reads now", body={"role": "read-only"}),),
    ),
    Operation(
        method="POST",
        template=_KEY + ":rotate",
        name="rotateKey",
        tag=TAG.name,
        summary="Give a key a new secret; the old one lives on for a while",
        parameters=(_ID,),
        body=RotateBody,
        body_optional=True,
        replies={200: _ROTATED},
        problems=(
            *codes.KEY,
            *codes.BODY,
            *codes.VERSION,
            "key_revoked",
            "invalid_settings",
        ),
        examples=(Example(text="An hour", body={"keep_old_ms": 3_600_000}),),
    ),
    Operation(
        method="POST",
        template=_KEY + ":rotate-signing",
        name="rotateSigningSecret",
        tag=TAG.name,
        summary="Give a key a signing secret, its first or a new one",
        text="Clients of RocketMQ sign with it (`secretKey`); the key's id is their "
        "`accessKey`. It is shown this once. The server keeps the secret itself, since "
        "an HMAC can be verified with nothing less; give it to keys that need it.",
        parameters=(_ID,),
        body=RotateBody,
        body_optional=True,
        replies={200: _SIGNING},
        problems=(
            *codes.KEY,
            *codes.BODY,
            *codes.VERSION,
            "key_revoked",
            "invalid_settings",
        ),
        examples=(Example(text="The old one ends now", body={"keep_old_ms": 0}),),
    ),
    Operation(
        method="POST",
        template=_KEY + ":drop-signing",
        name="dropSigningSecrets",
        tag=TAG.name,
        summary="Take a key its signing secrets; all else goes on",
        parameters=(_ID,),
        replies={200: _KEY_REPLY},
        problems=(*codes.KEY, *codes.BODY, *codes.VERSION),
        examples=(Example(text="Nobody signs with it"),),
    ),
    Operation(
        method="POST",
        template=_KEY + ":revoke",
        name="revokeKey",
        tag=TAG.name,
        summary="End a key, at once and for good",
        parameters=(_ID,),
        replies={200: _KEY_REPLY},
        problems=(*codes.KEY, *codes.BODY, *codes.VERSION),
        examples=(Example(text="It ends"),),
    ),
)

_NAMESPACE_OPERATIONS = (
    Operation(
        method="GET",
        template="/v1/whoami",
        name="whoAmI",
        tag=NAMESPACE_TAG.name,
        summary="Who the caller is, and what that allows",
        replies={200: Reply("You.", WhoView)},
        examples=(Example(text="You"),),
    ),
    Operation(
        method="GET",
        template=_NAMESPACES,
        name="listNamespaces",
        tag=NAMESPACE_TAG.name,
        summary="List namespaces by name",
        parameters=(parameters.LIMIT, parameters.PAGE_TOKEN),
        replies={200: Reply("A page of namespaces.", NamespaceListView)},
        problems=(*codes.METADATA, *codes.PAGE),
        examples=(Example(text="The first page"),),
    ),
    Operation(
        method="GET",
        template=_NAMESPACE,
        name="getNamespace",
        tag=NAMESPACE_TAG.name,
        summary="Look at a namespace",
        parameters=(_NAME,),
        replies={200: Reply("The namespace.", NamespaceView, ("ETag",))},
        problems=codes.NAMESPACE,
        examples=(Example(text="A namespace"),),
    ),
    Operation(
        method="PUT",
        template=_NAMESPACE,
        name="putNamespace",
        tag=NAMESPACE_TAG.name,
        summary="Create a namespace, or change it",
        parameters=(_NAME, parameters.IF_MATCH, parameters.IF_NONE_MATCH),
        body=NamespaceBody,
        replies={
            200: Reply("The namespace.", NamespaceView, ("ETag",)),
            201: Reply("It is new.", NamespaceView, ("ETag", "Location")),
        },
        problems=(
            *codes.NAMESPACE,
            *codes.BODY,
            *codes.SETTINGS,
            *codes.SERVICES,
            "namespace_in_use",
        ),
        examples=(
            Example(text="A tenant", body={"description": "Acme Ltd."}, status=201),
        ),
    ),
    Operation(
        method="DELETE",
        template=_NAMESPACE,
        name="deleteNamespace",
        tag=NAMESPACE_TAG.name,
        summary="Delete a namespace that is empty",
        parameters=(_NAME, parameters.IF_MATCH),
        replies={200: Reply("It is gone.", DeletedNamespaceView)},
        problems=(
            *codes.NAMESPACE,
            *codes.VERSION,
            *codes.SERVICES,
            "namespace_in_use",
        ),
        examples=(Example(text="It goes"),),
    ),
    Operation(
        method="GET",
        template="/v1/trail",
        name="listTrail",
        tag=NAMESPACE_TAG.name,
        summary="List administrative acts, the newest first",
        parameters=(
            parameters.query(
                "actor", "Only those of this one.", {"type": "string"}, "key:k3x9q2mv"
            ),
            parameters.query(
                "action",
                "Only this action, as the trail writes it.",
                {"type": "string"},
                "PUT /v1/topics/{topic}",
            ),
            parameters.query(
                "object", "Only on this object.", {"type": "string"}, "orders"
            ),
            parameters.query(
                "after",
                "At this moment or later.",
                parameters.MOMENT_SCHEMA,
                "2026-11-20T00:00:00Z",
            ),
            parameters.query(
                "before",
                "Before this moment.",
                parameters.MOMENT_SCHEMA,
                "2026-11-21T00:00:00Z",
            ),
            _OF_NAMESPACE,
            parameters.LIMIT,
            parameters.PAGE_TOKEN,
        ),
        replies={200: Reply("A page of acts.", TrailPageView)},
        problems=(*codes.METADATA, *codes.PAGE, "unknown_namespace"),
        examples=(Example(text="The latest", parameters={"limit": "10"}),),
    ),
)
OPERATIONS = (*_KEY_OPERATIONS, *_NAMESPACE_OPERATIONS)
