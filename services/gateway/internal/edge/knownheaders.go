package edge

import "urr.guru/services/gateway/internal/identity"

// These are headers that routes read, except credentials.
var (
	IdempotencyKey = Header{
		Name: identity.IdempotencyHeader, Description: "1 to 255 visible characters; the same call again with the same key gets the first answer.",
	}
	RequiredKey = Header{Name: IdempotencyKey.Name, Description: IdempotencyKey.Description, Required: true}
	IfMatch     = Header{
		Name:        identity.IfMatchHeader,
		Description: "An ETag of the event's settings: they are replaced only if nobody has changed them since. * demands that the event is there.",
	}
	QueueTicket = Header{
		Name: identity.QueueTicketHeader, Description: "The ticket of the last answer: it keeps the place should the line be lost.",
	}
	EntryToken = Header{Name: identity.EntryHeader, Description: "The entry token, once there is one."}
	VWRProof   = Header{
		Name: identity.ProofHeader, Description: "`<challenge>.<nonce>`, where a proof of work is owed. Not needed again while the first one has not expired.",
	}
	VWRCaptcha = Header{
		Name: identity.CaptchaHeader, Description: "The token of the challenge provider, where the platform has one. Not needed again within 5 minutes.",
	}
	VWRTicket   = Header{Name: identity.VWRTicketHeader, Description: "The ticket of assign: with it a check costs no lookup."}
	LastEventID = Header{
		Name: identity.LastEventHeader, Description: "The `id` of the last event: what has changed since then comes first, or all seats. An `EventSource` sends it by itself.",
	}
	// DrawKey is the Idempotency-Key of a draw.
	DrawKey = Header{
		Name: IdempotencyKey.Name, Description: IdempotencyKey.Description + " Required in a campaign with more than one draw per member and period.",
	}
)
