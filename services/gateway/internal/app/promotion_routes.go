package app

import (
	"net/http"
	"time"

	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// promotionRoutes take applications; none where ingest is not deployed.
func (e *endpoints) promotionRoutes() []*edge.Route {
	if e.promotions == nil {
		return nil
	}
	return append(e.drawRoutes(), &edge.Route{
		ID: "promotions.apply", Method: http.MethodPost, Pattern: "/api/v1/promotions/{event_id}/requests", Who: edge.User, Event: edge.FromPath,
		Handler: e.promotions.Apply, Timeout: 12 * time.Second, Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: []edge.Header{idempotencyKey},
		Status: http.StatusAccepted, Answer: &ingestv1.Applied{}, Example: appliedExample, Summary: "Applies, once per user and promotion",
		Description: "The request is stored, and settled later: `Location` has its status, which may have changed after `Retry-After` seconds. " +
			"Whoever has applied already gets the same request with `duplicate: true`; with the same `Idempotency-Key` it is the same application, so " +
			"`duplicate` is false.\n\nErrors: UNAUTHENTICATED, VWR_TOKEN_REQUIRED, PROMOTION_NOT_FOUND, NOT_OPEN, WITHDRAWN_TOO_OFTEN (three times), " +
			"OVERLOADED (too many requests to the promotion are not settled yet), IDEMPOTENCY_KEY_INVALID.",
	})
}

// drawRoutes serve what is too large for one message.
func (e *endpoints) drawRoutes() []*edge.Route {
	return []*edge.Route{
		{
			ID: "draws.document", Method: http.MethodGet, Pattern: "/api/v1/draws/{event_id}", Who: edge.Public, Handler: e.draws.Document,
			Poll: true, Timeout: handlers.DrawTimeout, Answer: &ingestv1.Draw{}, Example: drawDocumentExample, Summary: "What is public of a lottery's draw",
			Description: "Together with its entries, anybody can verify it: `verify draw` of this address, or the page of the draw. `commitment` and " +
				"`statement` are signed texts, served verbatim. The result, with the seed, is there from `announcedAt` on.\n\n" +
				"Errors: DRAW_NOT_FOUND (no promotion, or first come).",
		},
		{
			ID: "draws.entries", Method: http.MethodGet, Pattern: "/api/v1/draws/{event_id}/entries", Who: edge.Public, Handler: e.draws.Entries,
			Poll: true, Timeout: handlers.DrawTimeout, Summary: "The entries of a draw: request ids of 16 bytes each, sorted",
			Description: "`application/octet-stream` with an `ETag`; a `Range` of bytes is served alone. The file never changes once it is there, from " +
				"phase ROOT on.\n\nErrors: DRAW_NOT_FOUND, ENTRIES_NOT_PUBLIC, RANGE_NOT_SATISFIABLE (its `Content-Range` has the size).",
		},
		{
			ID: "promotions.winners", Method: http.MethodGet, Pattern: "/api/v1/admin/promotions/{event_id}/winners.csv", Who: edge.Admin,
			Handler: e.draws.Winners, Poll: true, Timeout: handlers.ExportTimeout, Summary: "Who has a place, as CSV",
			Description: "`text/csv` with the header `rank,requestId,userId`: the winners of an announced lottery by their rank, or the successful " +
				"requests to a first-come promotion so far by their place in the queue.\n\nErrors: UNAUTHENTICATED, ROLE_REQUIRED, " +
				"PROMOTION_NOT_FOUND, ANNOUNCEMENT_EARLY, UNAVAILABLE (the latest successful requests are not listed yet).",
		},
	}
}

// Responses in the API reference.
const (
	exampleRequest = `"019cc5d8-8a10-7b11-8e55-6f7081920a1b"`
	appliedExample = `{"requestId": ` + exampleRequest + `, "status": "QUEUED", "uiResult": "PENDING", "duplicate": false}`

	promotionExample = `{"eventId": ` + exampleCampaign + `, "title": "A hundred tickets", "eventType": "FIRST_COME", "capacityTotal": 100,
		"opensAt": "2026-03-07T01:00:00.000Z", "closesAt": "2026-03-07T03:00:00.000Z", "status": "Open", "paused": false}`
	requestExample = `{"requestId": ` + exampleRequest + `, "eventId": ` + exampleCampaign + `, "userId": "alice", "eventType": "FIRST_COME",
		"status": "SUCCEEDED", "uiResult": "SUCCESS", "resultCode": "SUCCESS", "requestedAt": 1772845200123, "queuedAt": 1772845200140,
		"startedAt": 1772845200190, "finishedAt": 1772845200201, "queueSeq": "000000000000000000018912345678901234567"}`
	timelineExample = `{"items": [{"fromStatus": "", "toStatus": "RECEIVED", "occurredAt": 1772845200123},
		{"fromStatus": "RECEIVED", "toStatus": "QUEUED", "occurredAt": 1772845200140},
		{"fromStatus": "QUEUED", "toStatus": "PROCESSING", "occurredAt": 1772845200190},
		{"fromStatus": "PROCESSING", "toStatus": "SUCCEEDED", "occurredAt": 1772845200201}]}`
	requestSummaryExample = `{"promotion": ` + promotionExample + `, "accepted": 250, "unsettled": 0,
		"results": [{"resultCode": "SUCCESS", "requests": 100}, {"resultCode": "REJECTED_CAPACITY", "requests": 150}], "capacityRemaining": 0}`
	deadLettersExample = `{"items": [{"requestId": ` + exampleRequest + `, "eventId": ` + exampleCampaign + `, "body": "{…}", "errorCode": "INTERNAL",
		"errorMessage": "settle: item is invalid", "at": 1772845200999}], "nextCursor": ""}`
	drawDocumentExample = `{"eventId": ` + exampleCampaign + `, "phase": "OPEN", "commitment": "{…}",
		"commitmentHash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "excluded": [], "winners": []}`
	drawProofExample = `{"index": 17, "count": 5000, "path": ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"], "rank": 3}`
	redrivenExample  = `{"redriven": [` + exampleRequest + `], "refused": [], "more": false}`
)
