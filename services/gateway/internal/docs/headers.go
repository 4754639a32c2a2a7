package docs

import (
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
)

// These are headers that routes read, except credentials.
var (
	IdempotencyKey = edge.Header{
		Name: identity.IdempotencyHeader, Description: "1 to 255 visible characters; the same call again with the same key gets the first answer.",
	}
	RequiredKey = edge.Header{Name: IdempotencyKey.Name, Description: IdempotencyKey.Description, Required: true}
	IfMatch     = edge.Header{
		Name:        identity.IfMatchHeader,
		Description: "An ETag of the event's settings: they are replaced only if nobody has changed them since. * demands that the event is there.",
	}
	QueueTicket = edge.Header{
		Name: identity.QueueTicketHeader, Description: "The ticket of the last answer: it keeps the place should the line be lost.",
	}
	EntryToken = edge.Header{Name: identity.EntryHeader, Description: "The entry token, once there is one."}
	VWRProof   = edge.Header{
		Name: identity.ProofHeader, Description: "`<challenge>.<nonce>`, where a proof of work is owed. Not needed again while the first one has not expired.",
	}
	VWRCaptcha = edge.Header{
		Name: identity.CaptchaHeader, Description: "The token of the challenge provider, where the platform has one. Not needed again within 5 minutes.",
	}
	VWRTicket   = edge.Header{Name: identity.VWRTicketHeader, Description: "The ticket of assign: with it a check costs no lookup."}
	LastEventID = edge.Header{
		Name: identity.LastEventHeader, Description: "The `id` of the last event: what has changed since then comes first, or all seats. An `EventSource` sends it by itself.",
	}
	// DrawKey is the Idempotency-Key of a draw.
	DrawKey = edge.Header{
		Name: IdempotencyKey.Name, Description: IdempotencyKey.Description + " Required in a campaign with more than one draw per member and period.",
	}
)
