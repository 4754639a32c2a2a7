package docs

import (
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

// examples are example responses, by the id of a hand-written route or the RPC of a pass-through
// route.
var examples = map[string]string{
	"admin.live":        liveExample,
	"promotions.apply":  appliedExample,
	"draws.document":    drawDocumentExample,
	"rewards.attend":    attendanceExample,
	"rewards.draw":      drawExample,
	"vwr.shuffle.proof": drawProofExample,
	rewardv1.RewardService_GetCampaign_FullMethodName:          campaignExample,
	rewardv1.RewardService_GetMyPart_FullMethodName:            partExample,
	rewardv1.RewardService_ListMyRewards_FullMethodName:        rewardsExample,
	rewardv1.RewardAdminService_CreateCampaign_FullMethodName:  campaignExample,
	rewardv1.RewardAdminService_ListRewards_FullMethodName:     failedExample,
	rewardv1.RewardAdminService_GetSummary_FullMethodName:      summaryExample,
	ingestv1.IngestService_GetPromotion_FullMethodName:         promotionExample,
	ingestv1.IngestService_GetRequest_FullMethodName:           requestExample,
	ingestv1.IngestService_GetDrawProof_FullMethodName:         drawProofExample,
	ingestv1.IngestService_GetTimeline_FullMethodName:          timelineExample,
	ingestv1.IngestAdminService_CreatePromotion_FullMethodName: promotionExample,
	ingestv1.IngestAdminService_GetSummary_FullMethodName:      requestSummaryExample,
	workerv1.WorkerAdminService_ListDeadLetters_FullMethodName: deadLettersExample,
	workerv1.WorkerAdminService_RedriveRequests_FullMethodName: redrivenExample,
}

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

	exampleRequest = `"019cc5d8-8a10-7b11-8e55-6f7081920a1b"`
	appliedExample = `{"requestId": ` + exampleRequest + `, "status": "QUEUED", "uiResult": "PENDING", "duplicate": false}`

	promotionExample = `{"eventId": ` + exampleCampaign + `, "title": "A hundred tickets", "eventType": "FIRST_COME", "capacityTotal": 100,
		"opensAt": "2026-03-07T01:00:00.000Z", "closesAt": "2026-03-07T03:00:00.000Z", "status": "Open", "paused": false,
		"remaining": 12, "recordRejected": true}`
	requestExample = `{"requestId": ` + exampleRequest + `, "eventId": ` + exampleCampaign + `, "userId": "alice", "eventType": "FIRST_COME",
		"status": "SUCCEEDED", "uiResult": "SUCCESS", "resultCode": "SUCCESS", "requestedAt": 1772845200123, "queuedAt": 1772845200140,
		"startedAt": 1772845200190, "finishedAt": 1772845200201, "queueSeq": "000000000000000000018912345678901234567.04", "place": 88}`
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

	liveExample = `{"at": "2026-03-07T01:00:00.000Z", "roomWaiting": 4100, "serving": 900, "waiting": 120, "active": 200, "holds": 35,
	"sold": 412, "failures": 0}`
)
