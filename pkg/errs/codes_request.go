package errs

// Errors of requests that are malformed or that contradict what is stored.
var (
	ErrInvalidRequest   = declare(Invalid, "INVALID_REQUEST", "The request is not valid")
	ErrUnknownField     = declare(Invalid, "UNKNOWN_FIELD", "The request has a member that is not known")
	ErrBodyTooLarge     = declare(Invalid, "BODY_TOO_LARGE", "The request body is too large")
	ErrInvalidUTF8      = declare(Invalid, "INVALID_UTF8", "The request is not valid UTF-8")
	ErrInvalidID        = declare(Invalid, "INVALID_ID", "An id in the request is not well-formed")
	ErrInvalidCursor    = declare(Invalid, "INVALID_CURSOR", "The cursor is not one that this list gave out")
	ErrMethodNotAllowed = declare(Invalid, "METHOD_NOT_ALLOWED", "The method is not allowed on this path")
	ErrUnsupportedMedia = declare(Invalid, "UNSUPPORTED_MEDIA_TYPE", "The body must be application/json")
	ErrNotFound         = declare(NotFound, "NOT_FOUND", "Nothing is found at this path")
	ErrConflict         = declare(Conflict, "CONFLICT", "The present state does not allow this")
	// The header Range cannot be satisfied (RFC 9110 §15.5.17).
	ErrRangeNotSatisfiable = declare(Invalid, "RANGE_NOT_SATISFIABLE", "The range is not within the file")
	// The header If-Match does not match (RFC 9110 §13.1.1).
	ErrPreconditionFailed = declare(Stale, "PRECONDITION_FAILED", "This has changed since it was read")
	ErrUnprocessable      = declare(Unprocessable, "UNPROCESSABLE", "The request contradicts an earlier one")
)

// Errors about who calls and what the caller may do.
var (
	ErrUnauthenticated = declare(Unauthenticated, "UNAUTHENTICATED", "Sign-in required")
	ErrSessionInvalid  = declare(Unauthenticated, "SESSION_INVALID", "The session has ended")
	ErrVisitorRequired = declare(Unauthenticated, "VISITOR_REQUIRED", "A visitor cookie is required")
	ErrForbidden       = declare(Forbidden, "FORBIDDEN", "You may not do this")
	ErrRoleRequired    = declare(Forbidden, "ROLE_REQUIRED", "Your role does not allow this")
	ErrCrossOrigin     = declare(Forbidden, "CROSS_ORIGIN", "Requests from another origin are refused")
	ErrOriginRequired  = declare(Forbidden, "ORIGIN_REQUIRED", "Requests must come through the site's own address")
	ErrCallerRefused   = declare(Forbidden, "CALLER_REFUSED", "The calling service may not call this method")
)

// Errors of load and availability.
var (
	ErrRateLimited = declare(Exhausted, "RATE_LIMITED", "Too many requests")
	ErrOverloaded  = declare(Exhausted, "OVERLOADED", "Too many requests at the moment")
	ErrCanceled    = declare(Canceled, "CANCELED", "The request was given up")
	ErrUnavailable = declare(Unavailable, "UNAVAILABLE", "Temporarily unavailable")
	ErrDeadline    = declare(Deadline, "DEADLINE_EXCEEDED", "No answer in time")
	ErrInternal    = declare(Internal, "INTERNAL", "Internal error")
	// The audit log cannot record the operator's call, so the call was not carried out. Calls that
	// stop or slow a sale never fail with this error.
	ErrAuditUnavailable = declare(Unavailable, "AUDIT_UNAVAILABLE", "The act cannot be recorded at the moment, so it was not carried out")
)

// Errors of the header Idempotency-Key (draft-ietf-httpapi-idempotency-key-header).
var (
	ErrIdempotencyKeyRequired = declare(Invalid, "IDEMPOTENCY_KEY_REQUIRED", "The Idempotency-Key header is required")
	ErrIdempotencyKeyInvalid  = declare(Invalid, "IDEMPOTENCY_KEY_INVALID", "The Idempotency-Key header is not well-formed")
	ErrIdempotencyKeyReused   = declare(Unprocessable, "IDEMPOTENCY_KEY_REUSED", "The Idempotency-Key was used with another request")
	ErrIdempotencyInProgress  = declare(Conflict, "IDEMPOTENCY_IN_PROGRESS", "A request with this Idempotency-Key is still running")
)
