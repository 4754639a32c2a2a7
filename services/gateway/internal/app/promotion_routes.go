package app

import (
	"net/http"
	"time"

	"urr.guru/services/gateway/internal/edge"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// promotionRoutes take applications; none where ingest is not deployed.
func (e *endpoints) promotionRoutes() []*edge.Route {
	if e.promotions == nil {
		return nil
	}
	return []*edge.Route{{
		ID: "promotions.apply", Method: http.MethodPost, Pattern: "/api/v1/promotions/{event_id}/requests", Who: edge.User, Event: edge.FromPath,
		Handler: e.promotions.Apply, Timeout: 12 * time.Second, Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: []edge.Header{idempotencyKey},
		Status: http.StatusAccepted, Answer: &ingestv1.Applied{}, Example: appliedExample, Summary: "Applies, once per user and promotion",
		Description: "The request is stored, and settled later: `Location` has its status, which may have changed after `Retry-After` seconds. " +
			"Whoever has applied already gets the same request with `duplicate: true`; with the same `Idempotency-Key` it is the same application, so " +
			"`duplicate` is false.\n\nErrors: UNAUTHENTICATED, VWR_TOKEN_REQUIRED, PROMOTION_NOT_FOUND, NOT_OPEN, OVERLOADED (too many requests to the " +
			"promotion are not settled yet), IDEMPOTENCY_KEY_INVALID.",
	}}
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
	redrivenExample = `{"redriven": [` + exampleRequest + `], "refused": [], "more": false}`
)
