package app

import (
	"net/http"

	"urr.guru/services/gateway/internal/edge"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
)

// drawKey is the Idempotency-Key of a draw.
var drawKey = edge.Header{
	Name: idempotencyKey.Name, Description: idempotencyKey.Description + " Required in a campaign with more than one draw per member and period.",
}

// rewardRoutes are what members do in campaigns; none where reward is not deployed.
func (e *endpoints) rewardRoutes() []*edge.Route {
	if e.rewards == nil {
		return nil
	}
	return []*edge.Route{
		{
			ID: "rewards.attend", Method: http.MethodPost, Pattern: "/api/v1/rewards/{event_id}/attendance", Who: edge.User, Event: edge.FromPath,
			Handler: e.rewards.Attend, Body: edge.JSONBody(&gatewayv1.Nothing{}), Status: http.StatusCreated, Repeats: true,
			Answer: &rewardv1.Earned{}, Example: attendanceExample, Summary: "Records today's attendance, the same again when repeated",
			Description: "Today is the day in Korea. What the attendance earns is paid afterwards; the rewards in `entries` of " +
				"`GET /api/v1/rewards/{eventId}/me` show how far that is.\n\nErrors: UNAUTHENTICATED, VWR_TOKEN_REQUIRED, CAMPAIGN_NOT_FOUND, NOT_OPEN.",
		},
		{
			ID: "rewards.draw", Method: http.MethodPost, Pattern: "/api/v1/rewards/{event_id}/draw", Who: edge.User, Event: edge.FromPath,
			Handler: e.rewards.Draw, Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: []edge.Header{drawKey}, Status: http.StatusCreated, Repeats: true,
			Answer: &rewardv1.Earned{}, Example: drawExample, Summary: "Draws a prize, the same again when repeated",
			Description: "A prize of kind NONE is a blank. Without `prize` all prizes were gone; the draw counts all the same.\n\n" +
				"Errors: UNAUTHENTICATED, VWR_TOKEN_REQUIRED, CAMPAIGN_NOT_FOUND, NOT_OPEN, DRAWS_USED_UP, IDEMPOTENCY_KEY_REQUIRED, " +
				"IDEMPOTENCY_KEY_INVALID, IDEMPOTENCY_IN_PROGRESS.",
		},
	}
}

// Responses in the API reference.
const (
	exampleCampaign = `"019cc5d8-7f1a-7c3e-9d1a-3b5c7d9e1f20"`
	exampleTime     = `"2026-03-07T01:00:00.000Z"`
	exampleReward   = `{"allocationId": "23", "kind": "POINT", "value": 10, "reason": "DAILY", "status": "PENDING", "createdAt": ` + exampleTime +
		`, "eventId": ` + exampleCampaign + `}`

	attendanceExample = `{"entryId": "17", "day": "2026-03-07", "streak": 3, "rewards": [` + exampleReward + `], "repeated": false}`
	drawExample       = `{"entryId": "18", "prize": {"name": "Nothing this time", "kind": "NONE", "value": 0, "weight": 90}, "rewards": [], "repeated": false}`
	partExample       = `{"days": ["2026-03-05", "2026-03-06", "2026-03-07"], "streak": 3, "milestones": [3], "drawsLeft": 0, "today": "2026-03-07",
		"entries": [` + attendanceExample + `]}`
	rewardsExample  = `{"items": [` + exampleReward + `], "nextCursor": "23"}`
	campaignExample = `{"eventId": ` + exampleCampaign + `, "title": "March", "kind": "ATTENDANCE", "opensAt": "2026-02-28T15:00:00.000Z",
		"closesAt": "2026-03-31T15:00:00.000Z", "status": "OPEN", "daily": {"kind": "POINT", "value": 10},
		"milestones": [{"day": 7, "kind": "COUPON", "value": 4711, "every": false}], "prizes": [], "drawsPerMember": 1, "period": "CAMPAIGN"}`
	failedExample = `{"items": [{"allocationId": "23", "eventId": ` + exampleCampaign + `, "memberId": "alice", "kind": "POINT", "value": 10,
		"status": "FAILED", "idempotencyKey": "att-019cc5d8%2D7f1a%2D7c3e%2D9d1a%2D3b5c7d9e1f20-alice-2026-03-07-DAILY", "retryCount": 10,
		"errorCode": "REFUSED", "errorMessage": "the member's account is closed", "calls": []}], "nextCursor": ""}`
	summaryExample = `{"totals": [{"status": "FAILED", "rewards": 2, "points": 20, "held": 1, "unknown": 1},
		{"status": "SUCCESS", "rewards": 1998, "points": 19980, "held": 0, "unknown": 0}]}`
)
