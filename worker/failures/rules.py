"""The rules that name a cause, from top to bottom; the first match decides.

Comes in: `Facts`. Goes out: a row of `RULES`. Pure; for `worker.failures` only.

Specific codes come first, then specific wordings, then the status, generic codes last: a wording
often beats a status (a 429 that is an empty account) or a generic code (a throttle that calls
itself `invalid_request_error`). Each row carries an example that it decides and one, close to it,
that it must leave alone; a test runs both. `<status> <body>` is the form of an example.
"""

from shared.causes import Cause
from worker.failures.facts import MODERATION, PER_DAY
from worker.failures.rule import Rule, any_of, words
from worker.failures.wordings import (
    BALANCE_CODES,
    BALANCE_WORDS,
    FILTER_CODES,
    FILTER_WORDS,
    MODEL_WORDS,
    OVERFLOW_WORDS,
)

_THROTTLES = any_of("rate_limit_error", "rate_limit_exceeded", "throttlingexception")
_NO_STATUS = frozenset({0})
_BUSY = frozenset({429, 503})
_CLIENT_ERRORS = frozenset(range(400, 500))

RULES: tuple[Rule, ...] = (
    # ------------------------------------------------------ specific codes
    Rule(
        cause=Cause.CONTENT_FILTER,
        codes=FILTER_CODES,
        yes='400 {"error":{"code":"content_filter","message":"policy"}}',
        no='400 {"error":{"code":"filter_missing","message":"no content filter is set"}}',
    ),
    Rule(
        cause=Cause.CONTENT_FILTER,
        words=FILTER_WORDS,
        yes="""0 {"error":{"message":"Error code: 400 - {'error': {'code': 'content_filter'}}"}}""",
        no='0 {"error":{"message":"the content_filter option is unknown"}}',
    ),
    Rule(
        cause=Cause.MODERATION,
        codes=any_of(MODERATION),
        yes='403 {"error":{"code":403,"metadata":{"flagged_input":"x","reasons":["y"]}}}',
        no='403 {"error":{"code":403,"metadata":{"reasons":"none"}}}',
    ),
    Rule(
        cause=Cause.INVALID_KEY,
        codes=any_of("api_key_invalid", "invalid_api_key", "authentication_error"),
        yes='400 {"error":{"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}',
        no='400 {"error":{"status":"INVALID_ARGUMENT","message":"the api key field is unknown"}}',
    ),
    # --------------------------------------------------- specific wordings
    Rule(
        cause=Cause.INVALID_KEY,
        words=words(r"\b(?:incorrect|invalid) api key provided\b"),
        yes='400 {"code":"invalid argument","error":"Incorrect API key provided: xa***"}',
        no='400 {"error":{"message":"the api key field is unknown"}}',
    ),
    Rule(
        cause=Cause.AFFORDABLE_WITH_SMALLER_MAX_TOKENS,
        words=words(r"can only afford 0*[1-9]"),
        yes='402 {"error":{"message":"You requested up to 9000 tokens, but can only afford 77"}}',
        no='402 {"error":{"message":"You requested up to 9000 tokens, but can only afford 0"}}',
    ),
    Rule(
        cause=Cause.INSUFFICIENT_BALANCE,
        words=words(r"can only afford 0+\b"),
        yes='402 {"error":{"message":"You requested up to 9000 tokens, but can only afford 0"}}',
        no='402 {"error":{"message":"can only afford 07"}}',
    ),
    Rule(
        cause=Cause.DAILY_QUOTA_EXHAUSTED,
        codes=any_of(PER_DAY),
        yes='429 {"error":{"details":[{"violations":[{"quotaId":"RequestsPerDayPerModel"}]}]}}',
        no='429 {"error":{"details":[{"violations":[{"quotaId":"RequestsPerMinutePerModel"}]}]}}',
    ),
    Rule(
        cause=Cause.DAILY_QUOTA_EXHAUSTED,
        words=words(r"free-models-per-day"),
        statuses=frozenset({0, 429}),
        yes='429 {"error":{"message":"Rate limit exceeded: free-models-per-day","code":429}}',
        no='429 {"error":{"message":"Rate limit exceeded: free-models-per-min","code":429}}',
    ),
    Rule(
        cause=Cause.PLAN_ACCESS_DENIED,
        words=words(r"subscription plan", r"does not yet include access", r"plan does not include"),
        yes='429 {"error":{"message":"This subscription plan does not yet include access to it"}}',
        no='429 {"error":{"message":"The plan is to answer later, retry soon"}}',
    ),
    Rule(
        cause=Cause.INSUFFICIENT_BALANCE,
        codes=BALANCE_CODES,
        yes='429 {"error":{"code":"insufficient_quota","message":"quota"}}',
        no='429 {"status":429,"error":"INSUFFICIENT QUOTA","message":"too many at once"}',
    ),
    Rule(
        cause=Cause.INSUFFICIENT_BALANCE,
        words=BALANCE_WORDS,
        yes='400 {"error":{"message":"Your credit balance is too low to use the API"}}',
        no='400 {"error":{"message":"the balance between length and detail is off"}}',
    ),
    Rule(
        # Google says so for every 429, hence not beside its code.
        cause=Cause.INSUFFICIENT_BALANCE,
        words=words(r"exceeded your current quota"),
        not_codes=any_of("resource_exhausted"),
        yes='429 {"error":{"message":"You exceeded your current quota, check your plan"}}',
        no='429 {"error":{"status":"RESOURCE_EXHAUSTED","message":"exceeded your current quota"}}',
    ),
    Rule(
        cause=Cause.DATA_POLICY,
        words=words(r"data policy", r"paid model training"),
        yes='404 {"error":{"message":"No endpoints found matching your data policy"}}',
        no='404 {"error":{"message":"No endpoints found for this model"}}',
    ),
    Rule(
        cause=Cause.CONTEXT_OVERFLOW,
        codes=any_of("context_length_exceeded", "exceed_context_size_error"),
        yes='400 {"error":{"code":"context_length_exceeded","message":"too long"}}',
        no='400 {"error":{"code":"string_too_long","message":"too long"}}',
    ),
    Rule(
        cause=Cause.CONTEXT_OVERFLOW,
        words=OVERFLOW_WORDS,
        not_statuses=_BUSY,
        not_codes=any_of("rate_limit_error"),
        yes='400 {"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}',
        no='429 {"error":{"message":"slow down, or reduce the length of the messages"}}',
    ),
    Rule(
        # Vaguer words, which throttles use too ("Too many tokens, please wait").
        cause=Cause.CONTEXT_OVERFLOW,
        words=words(
            r"input is too long", r"token limit exceeded", r"too many tokens(?!.{0,80}\bwait\b)"
        ),
        statuses=frozenset({400, 422}),
        not_codes=_THROTTLES,
        yes='400 {"error":{"message":"too many tokens in the prompt"}}',
        no='400 {"message":"Too many tokens, please wait.","__type":"ThrottlingException"}',
    ),
    Rule(
        cause=Cause.REQUEST_TOO_LARGE,
        codes=any_of("request_too_large"),
        yes='400 {"error":{"type":"request_too_large","message":"over 32 MB"}}',
        no='400 {"error":{"type":"image_too_large","message":"over 5 MB"}}',
    ),
    Rule(
        cause=Cause.REQUEST_TOO_LARGE,
        statuses=frozenset({413}),
        yes="413 <html>Request Entity Too Large</html>",
        no="414 <html>URI Too Long</html>",
    ),
    Rule(
        cause=Cause.MODEL_NOT_FOUND,
        codes=any_of("model_not_found", "model_decommissioned"),
        yes='403 {"error":{"code":"model_not_found","message":"no access"}}',
        no='403 {"error":{"code":"voice_not_found","message":"no access"}}',
    ),
    Rule(
        cause=Cause.MODEL_NOT_FOUND,
        codes=any_of("not_found_error"),
        words=words(r"\bmodel\b"),
        yes='404 {"error":{"type":"not_found_error","message":"model: demo-1"}}',
        no='404 {"error":{"type":"not_found_error","message":"Not Found"}}',
    ),
    Rule(
        cause=Cause.MODEL_NOT_FOUND,
        words=MODEL_WORDS,
        yes='400 {"error":{"message":"demo/nope is not a valid model ID"}}',
        no='400 {"error":{"message":"this model needs a valid temperature"}}',
    ),
    Rule(
        # Elsewhere it is about a parameter ("`temperature` is deprecated for this model").
        cause=Cause.MODEL_NOT_FOUND,
        statuses=frozenset({404, 410}),
        words=words(r"\bdeprecated\b", r"\bretired\b", r"\bdecommissioned\b"),
        yes='404 {"error":{"message":"Demo Fast 4.1 is deprecated. Choose a newer one."}}',
        no='400 {"error":{"message":"`temperature` is deprecated for this model."}}',
    ),
    Rule(
        cause=Cause.OVERLOADED,
        codes=any_of("overloaded_error", "unavailable"),
        yes='0 {"type":"error","error":{"type":"overloaded_error","message":"try later"}}',
        no='0 {"type":"error","error":{"type":"overload_test","message":"try later"}}',
    ),
    Rule(cause=Cause.OVERLOADED, statuses=frozenset({529}), yes="529 ", no="530 "),
    Rule(
        cause=Cause.OVERLOADED,
        words=words(r"\boverloaded\b"),
        yes='500 {"error":{"message":"The engine is currently overloaded"}}',
        no='500 {"error":{"message":"Overload of the function f was ambiguous"}}',
    ),
    Rule(
        cause=Cause.RATE_LIMITED,
        statuses=frozenset({429}),
        yes='429 {"error":{"message":"slow down"}}',
        no='428 {"error":{"message":"slow down"}}',
    ),
    Rule(
        cause=Cause.RATE_LIMITED,
        codes=_THROTTLES | {"resource_exhausted"},
        yes='0 {"error":{"status":"RESOURCE_EXHAUSTED","message":"Quota exceeded"}}',
        no='0 {"error":{"status":"MEMORY_EXHAUSTED","message":"Quota exceeded"}}',
    ),
    Rule(
        cause=Cause.RATE_LIMITED,
        words=words(
            r"\btoo many requests\b",
            r"\btoo many tokens\b.{0,80}\bwait\b",
            r"\brate[ -]limited\b",
        ),
        yes='0 {"error":{"type":"invalid_request_error","message":"Too many requests, slow down"}}',
        no='0 {"error":{"type":"invalid_request_error","message":"the frame rate is limited"}}',
    ),
    Rule(
        # Some throttle under another status (GitHub's 403).
        cause=Cause.RATE_LIMITED,
        words=words(r"\brate limit (?:reached|exceeded)"),
        statuses=frozenset({0, 400, 403}),
        yes='403 {"message":"API rate limit exceeded for this user"}',
        no='500 {"message":"rate limit exceeded in the log writer"}',
    ),
    Rule(
        cause=Cause.GATEWAY_TIMEOUT,
        statuses=frozenset({504, 522, 524}),
        yes="524 <html>A timeout occurred</html>",
        no="525 <html>SSL handshake failed</html>",
    ),
    Rule(
        cause=Cause.GATEWAY_TIMEOUT,
        codes=any_of("deadline_exceeded"),
        yes='0 {"error":{"status":"DEADLINE_EXCEEDED","message":"gave up"}}',
        no='0 {"error":{"status":"DEADLINE_UNSET","message":"gave up"}}',
    ),
    Rule(cause=Cause.REQUEST_TIMEOUT, statuses=frozenset({408}), yes="408 ", no="409 "),
    Rule(
        cause=Cause.REQUEST_TIMEOUT,
        codes=any_of("timeout_error", "request_timeout"),
        yes='0 {"error":{"type":"timeout_error","message":"took too long"}}',
        no='0 {"error":{"type":"invalid_request_error","message":"unknown parameter: timeout"}}',
    ),
    Rule(
        cause=Cause.REGION_NOT_SUPPORTED,
        codes=any_of("unsupported_country_region_territory"),
        yes='403 {"error":{"code":"unsupported_country_region_territory","message":"no"}}',
        no='403 {"error":{"code":"request_forbidden","message":"no"}}',
    ),
    Rule(
        cause=Cause.REGION_NOT_SUPPORTED,
        words=words(r"location is not supported", r"not available in your (?:country|region)"),
        yes='400 {"error":{"code":400,"message":"User location is not supported for the API"}}',
        no='400 {"error":{"code":400,"message":"User location is unknown"}}',
    ),
    # -------------------------------------------------------------- status
    Rule(
        cause=Cause.INVALID_KEY,
        statuses=frozenset({401}),
        yes='401 {"detail":"Invalid or missing token"}',
        no='400 {"detail":"Invalid or missing token"}',
    ),
    Rule(
        cause=Cause.INSUFFICIENT_BALANCE,
        statuses=frozenset({402}),
        yes='402 {"error":{"message":"Payment Required"}}',
        no='400 {"error":{"message":"Payment Required"}}',
    ),
    Rule(
        cause=Cause.PERMISSION_DENIED,
        statuses=frozenset({403}),
        yes='403 {"error":{"message":"Forbidden"}}',
        no='400 {"error":{"message":"Forbidden"}}',
    ),
    Rule(
        cause=Cause.PERMISSION_DENIED,
        codes=any_of("permission_error", "permission_denied"),
        yes='0 {"type":"error","error":{"type":"permission_error","message":"no"}}',
        no='0 {"type":"error","error":{"type":"access_note","message":"no"}}',
    ),
    Rule(
        cause=Cause.INVALID_KEY,
        codes=any_of("unauthenticated"),
        statuses=_NO_STATUS,
        yes='0 {"error":{"status":"UNAUTHENTICATED","message":"no"}}',
        no='0 {"error":{"status":"AUTHENTICATED","message":"no"}}',
    ),
    Rule(
        # Redirects are not followed: the key and the prompt would go along.
        cause=Cause.ENDPOINT_NOT_FOUND,
        statuses=frozenset(range(300, 400)),
        yes="307 ",
        no="200 ",
    ),
    Rule(
        cause=Cause.ENDPOINT_NOT_FOUND,
        statuses=frozenset({404}),
        yes='404 {"detail":"Not Found"}',
        no='410 {"detail":"Gone"}',
    ),
    Rule(
        cause=Cause.ENDPOINT_NOT_FOUND,
        codes=any_of("not_found_error"),
        yes='0 {"type":"error","error":{"type":"not_found_error","message":"Not Found"}}',
        no='0 {"type":"error","error":{"type":"found_error","message":"Not Found"}}',
    ),
    Rule(
        cause=Cause.ENDPOINT_NOT_FOUND,
        codes=any_of("not_found"),
        statuses=_NO_STATUS,
        yes='0 {"error":{"status":"NOT_FOUND","message":"no such method"}}',
        no='500 {"error":{"status":"NOT_FOUND","message":"no such method"}}',
    ),
    # ------------------------------------------ codes of a failed generation
    Rule(
        cause=Cause.TOOL_GENERATION_FAILED,
        codes=any_of("tool_use_failed"),
        yes='400 {"error":{"type":"invalid_request_error","code":"tool_use_failed"}}',
        no='400 {"error":{"type":"invalid_request_error","code":"tool_unknown"}}',
    ),
    Rule(
        cause=Cause.INSUFFICIENT_SYSTEM_RESOURCE,
        codes=any_of("insufficient_system_resource"),
        yes='0 {"code":"insufficient_system_resource"}',
        no='0 {"code":"system_resource"}',
    ),
    Rule(
        cause=Cause.MALFORMED_FUNCTION_CALL,
        codes=any_of("malformed_function_call", "unexpected_tool_call", "too_many_tool_calls"),
        yes='0 {"code":"MALFORMED_FUNCTION_CALL"}',
        no='0 {"code":"FUNCTION_CALL"}',
    ),
    # ------------------------------------------------- servers and the rest
    Rule(
        cause=Cause.BAD_GATEWAY,
        statuses=frozenset({502, 520, 521, 523}),
        yes="502 <html>Bad gateway</html>",
        no="522 <html>Connection timed out</html>",
    ),
    Rule(cause=Cause.OVERLOADED, statuses=frozenset({503}), yes="503 ", no="501 "),
    Rule(cause=Cause.SERVER_ERROR, statuses=frozenset({500}), yes="500 ", no="505 "),
    Rule(
        cause=Cause.SERVER_ERROR,
        codes=any_of("server_error", "internal_server_error", "internal", "api_error"),
        yes='0 {"error":{"code":"server_error","message":"went away"}}',
        no='0 {"error":{"code":"error","message":"went away"}}',
    ),
    Rule(
        cause=Cause.INVALID_REQUEST,
        statuses=_CLIENT_ERRORS,
        yes='422 {"detail":[{"loc":["body"],"msg":"field required"}]}',
        no='505 {"detail":"version"}',
    ),
    Rule(
        cause=Cause.INVALID_REQUEST,
        codes=any_of("invalid_request_error"),
        yes='0 {"error":{"type":"invalid_request_error","message":"bad field"}}',
        no='0 {"error":{"type":"unknown_error","message":"bad field"}}',
    ),
    Rule(
        cause=Cause.INVALID_REQUEST,
        codes=any_of("invalid_argument", "failed_precondition"),
        statuses=_NO_STATUS,
        yes='0 {"error":{"status":"INVALID_ARGUMENT","message":"bad field"}}',
        no='501 {"error":{"status":"INVALID_ARGUMENT","message":"bad field"}}',
    ),
)
