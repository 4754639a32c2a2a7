package app_test

import (
	"maps"
	"strings"
)

// input has the rules for a route's input, except the types of its fields, which are in the API
// reference.
type input struct {
	// required has the required fields, with the error code if one is absent or null.
	required map[string]string
	// bad has values that have the right type but are refused.
	bad []badValue
	// queries has the queries that are refused, with the error code.
	queries map[string]string
}

type badValue struct {
	member, value, code string
	path                string // path in the error; "": that of the member, wholeBody: none
}

// wholeBody is the path of a value that is refused because of other members.
const wholeBody = "*"

var (
	longID   = `"` + strings.Repeat("a", 65) + `"`
	longText = `"` + strings.Repeat("a", 201) + `"`
	scan     = `{"scanId":"` + requestID + `","code":"x","at":"2030-01-01T00:00:00Z"}`
	// pageQueries are refused queries of all lists with pages.
	pageQueries = map[string]string{
		"limit=101": "INVALID_REQUEST", "limit=-1": "INVALID_REQUEST", "limit=1&limit=2": "INVALID_REQUEST",
		"cursor=%ff": "INVALID_UTF8", "cursor=%zz": "INVALID_REQUEST", "cursor=" + strings.Repeat("x", 1001): "INVALID_REQUEST",
	}
	badEvents = []badValue{
		{member: "eventId", value: longID, code: "INVALID_ID"},
		{member: "eventId", value: `""`, code: "INVALID_ID"},
		{member: "eventId", value: `"a b"`, code: "INVALID_ID"},
	}
	sale = input{
		required: map[string]string{
			"title": "INVALID_REQUEST", "startsAt": "INVALID_REQUEST", "salesOpenAt": "INVALID_REQUEST", "salesCloseAt": "INVALID_REQUEST",
			"currency": "INVALID_REQUEST", "maxPerUser": "INVALID_REQUEST", "sections": "INVALID_REQUEST",
		},
		bad: []badValue{
			{member: "title", value: longText, code: "INVALID_REQUEST"},
			{member: "title", value: `"a\u0000b"`, code: "INVALID_REQUEST"},
			{member: "startsAt", value: `"tomorrow"`, code: "INVALID_REQUEST"},
			{member: "seating", value: `"STANDING"`, code: "INVALID_REQUEST"},
			{member: "currency", value: `"krw"`, code: "INVALID_REQUEST"},
			{member: "maxPerUser", value: `1001`, code: "INVALID_REQUEST"},
			{member: "timeZone", value: `"Local"`, code: "INVALID_REQUEST"},
			{member: "returnWithin", value: `86401`, code: "INVALID_REQUEST"},
			{member: "returnsTo", value: `"SHOP"`, code: "INVALID_REQUEST"},
			{member: "maxReturnsPerUser", value: `-1`, code: "INVALID_REQUEST"},
			{member: "codesFrom", value: `8761`, code: "INVALID_REQUEST"},
			{member: "statementSuffix", value: `"` + strings.Repeat("A", 23) + `"`, code: "INVALID_REQUEST"},
			{member: "expected", value: `{"visitors":100000001,"withinSeconds":60}`, code: "INVALID_REQUEST", path: "expected.visitors"},
			{member: "seriesId", value: `"a b"`, code: "INVALID_REQUEST"},
			{member: "maxPerUserInSeries", value: `1001`, code: "INVALID_REQUEST"},
			{member: "refundUntil", value: `"` + strings.Repeat("n", 65) + `"`, code: "INVALID_REQUEST"},
			{member: "cancellationFees", value: `{"steps":[{"until":"2029-12-01T00:00:00Z","percent":101}]}`, code: "INVALID_REQUEST", path: "cancellationFees.steps[0].percent"},
			{member: "presale", value: `{"any":[{"list":"a b"}]}`, code: "INVALID_REQUEST", path: "presale.any[0].list"},
			{member: "presale", value: `{"maxPerUser":0}`, code: "INVALID_REQUEST", path: "presale.maxPerUser"},
			{member: "sections", value: `[]`, code: "INVALID_REQUEST"},
			{member: "sections", value: `[{"section":"A","fee":-1,"capacity":1}]`, code: "INVALID_REQUEST", path: "sections[0].fee"},
			{member: "sections", value: `[{"section":"A","price":-1,"capacity":1}]`, code: "INVALID_REQUEST", path: "sections[0].price"},
		},
	}
)

// lineUser is the input of an operator's act on one user of a line.
var lineUser = input{
	required: map[string]string{"userId": "INVALID_REQUEST"},
	bad: []badValue{
		{member: "userId", value: `"a b"`, code: "INVALID_REQUEST"},
		{member: "userId", value: longText, code: "INVALID_REQUEST"},
		{member: "eventId", value: `"calm"`, code: "UNKNOWN_FIELD"}, // it is in the path
	},
}

// campaign is the input that creates a campaign.
var campaign = input{
	required: map[string]string{
		"title": "INVALID_REQUEST", "kind": "INVALID_REQUEST", "opensAt": "INVALID_REQUEST", "closesAt": "INVALID_REQUEST",
	},
	bad: []badValue{
		{member: "eventId", value: `"calm"`, code: "UNKNOWN_FIELD"}, // ids are made by the service
		{member: "title", value: `""`, code: "INVALID_REQUEST"},
		{member: "title", value: longText, code: "INVALID_REQUEST"},
		{member: "title", value: `"a\u0000b"`, code: "INVALID_REQUEST"},
		{member: "kind", value: `"LOTTERY"`, code: "INVALID_REQUEST"},
		{member: "opensAt", value: `"tomorrow"`, code: "INVALID_REQUEST"},
		{member: "promotionId", value: `"a b"`, code: "INVALID_REQUEST"},
		{member: "daily", value: `{"value":5}`, code: "INVALID_REQUEST", path: "daily.kind"},
		{member: "daily", value: `{"kind":"NONE","value":5}`, code: "INVALID_REQUEST", path: "daily.kind"},
		{member: "daily", value: `{"kind":"POINT","value":0}`, code: "INVALID_REQUEST", path: "daily.value"},
		{member: "milestones", value: `[{"day":0,"kind":"POINT","value":5}]`, code: "INVALID_REQUEST", path: "milestones[0].day"},
		{member: "prizes", value: `[{"name":"","kind":"POINT","value":5,"weight":1}]`, code: "INVALID_REQUEST", path: "prizes[0].name"},
		{member: "prizes", value: `[{"name":"P","kind":"POINT","value":5,"weight":0}]`, code: "INVALID_REQUEST", path: "prizes[0].weight"},
		{member: "prizes", value: `[{"name":"P","kind":"POINT","value":5,"weight":1,"stock":-1}]`, code: "INVALID_REQUEST", path: "prizes[0].stock"},
		{member: "drawsPerMember", value: `0`, code: "INVALID_REQUEST"},
		{member: "drawsPerMember", value: `1001`, code: "INVALID_REQUEST"},
		{member: "period", value: `"WEEK"`, code: "INVALID_REQUEST"},
		{member: "expected", value: `{"visitors":-1,"withinSeconds":60}`, code: "INVALID_REQUEST", path: "expected.visitors"},
	},
}

// rewardQueries returns refused queries of the operators' list of rewards.
func rewardQueries() map[string]string {
	all := maps.Clone(pageQueries)
	maps.Copy(all, map[string]string{
		"status=PAID": "INVALID_REQUEST", "memberId=" + strings.Repeat("m", 65): "INVALID_REQUEST", "memberId=a%20b": "INVALID_REQUEST",
		"status=FAILED&eventId=" + strings.Repeat("e", 65): "INVALID_REQUEST", "eventId=a.b": "INVALID_REQUEST",
	})
	return all
}

// promotion is the input that creates a promotion.
var promotion = input{
	required: map[string]string{
		"title": "INVALID_REQUEST", "eventType": "INVALID_REQUEST", "capacityTotal": "INVALID_REQUEST", "opensAt": "INVALID_REQUEST",
		"closesAt": "INVALID_REQUEST",
	},
	bad: []badValue{
		{member: "eventId", value: `"calm"`, code: "UNKNOWN_FIELD"}, // ids are made by the service
		{member: "title", value: longText, code: "INVALID_REQUEST"},
		{member: "eventType", value: `"AUCTION"`, code: "INVALID_REQUEST"},
		{member: "capacityTotal", value: `0`, code: "INVALID_REQUEST"},
		{member: "capacityTotal", value: `1000001`, code: "INVALID_REQUEST"},
		{member: "opensAt", value: `"tomorrow"`, code: "INVALID_REQUEST"},
		{member: "beacon", value: `{"scheme":"` + strings.Repeat("s", 65) + `"}`, code: "INVALID_REQUEST", path: "beacon.scheme"},
		{member: "shards", value: `129`, code: "INVALID_REQUEST"},
		{member: "expected", value: `{"withinSeconds":86401}`, code: "INVALID_REQUEST", path: "expected.withinSeconds"},
	},
}

// requestQueries returns refused queries of the operators' list of requests.
func requestQueries() map[string]string {
	all := maps.Clone(pageQueries)
	maps.Copy(all, map[string]string{
		"status=DONE": "INVALID_REQUEST", "resultCode=" + strings.Repeat("R", 65): "INVALID_REQUEST", "resultCode=won": "INVALID_REQUEST",
	})
	return all
}

// voidReason is what requests to void tickets need.
var voidReason = input{
	required: map[string]string{"reason": "INVALID_REQUEST"},
	bad: []badValue{
		{member: "reason", value: `""`, code: "INVALID_REQUEST"},
		{member: "reason", value: `"` + strings.Repeat("a", 501) + `"`, code: "INVALID_REQUEST"},
	},
}

// badRefunds are refused values in requests for refunds.
var badRefunds = []badValue{
	{member: "ticketIds", value: `["42"]`, code: "INVALID_REQUEST", path: "ticketIds[0]"},
	{member: "ticketIds", value: `["` + requestID + `","` + requestID + `"]`, code: "INVALID_REQUEST"},
	{member: "reason", value: `"` + strings.Repeat("a", 501) + `"`, code: "INVALID_REQUEST"},
	{member: "amount", value: `-1`, code: "INVALID_REQUEST"},
	{member: "paymentId", value: `"` + requestID + `"`, code: "UNKNOWN_FIELD"}, // it is in the path
}

// refundQueries returns refused queries of the operators' lists of refunds, disputes and differences.
func refundQueries() map[string]string {
	all := maps.Clone(pageQueries)
	all["status=SENT"] = "INVALID_REQUEST"
	return all
}

// orderQueries returns refused queries of the operators' search for orders.
func orderQueries() map[string]string {
	all := maps.Clone(pageQueries)
	maps.Copy(all, map[string]string{
		"user=" + strings.Repeat("u", 65): "INVALID_REQUEST", "eventId=a%20b": "INVALID_REQUEST", "reservationId=x": "INVALID_REQUEST",
		"orderId=" + strings.Repeat("o", 65): "INVALID_REQUEST", "user=a%20b": "INVALID_REQUEST", "seat=A1": "INVALID_REQUEST",
		"user=a&user=b": "INVALID_REQUEST", "code=%00": "INVALID_REQUEST",
	})
	return all
}

// auditQueries returns refused queries of the audit log.
func auditQueries() map[string]string {
	all := maps.Clone(pageQueries)
	maps.Copy(all, map[string]string{
		"eventId=" + strings.Repeat("e", 65): "INVALID_REQUEST", "eventId=a.b": "INVALID_REQUEST", "user=a%20b": "INVALID_REQUEST",
		"from=yesterday": "INVALID_REQUEST", "to=2026-03-01": "INVALID_REQUEST", "to=1772845200123": "INVALID_REQUEST",
	})
	return all
}

// inputs has a row for every route with a JSON body, and for others with rules for their query.
var inputs = map[string]input{
	"auth.dev-login": {
		required: map[string]string{"userId": "INVALID_ID"},
		bad: []badValue{
			{member: "userId", value: `"a b"`, code: "INVALID_ID"},
			{member: "userId", value: longID, code: "INVALID_ID"},
			{member: "roles", value: `["root"]`, code: "INVALID_REQUEST"},
			{member: "roles", value: `["admin",7]`, code: "INVALID_REQUEST", path: "roles[1]"},
		},
	},
	"sessions.revoke": {bad: []badValue{
		{member: "userId", value: `"a b"`, code: "INVALID_ID"},
		{member: "sessionId", value: `"` + requestID + `"`, code: "INVALID_REQUEST", path: "userId"},
	}},
	"auth.logout":     {},
	"vwr.assign":      {},
	"vwr.lobby":       {},
	"queue.check":     {},
	"queue.heartbeat": {},
	"queue.leave":     {},

	"EventService.ListEvents":               {queries: pageQueries},
	"ReservationService.ListMyReservations": {queries: pageQueries},
	"TicketService.ListMyTickets":           {queries: pageQueries},
	"CheckInService.ListConflicts":          {queries: pageQueries},
	"CheckInService.GetDoorList": {queries: map[string]string{
		"limit=5001": "INVALID_REQUEST", "limit=-1": "INVALID_REQUEST", "cursor=" + strings.Repeat("x", 513): "INVALID_REQUEST",
	}},
	"StatsService.ListActs": {queries: auditQueries()},
	"StatsService.GetEventSeries": {queries: map[string]string{
		"from=yesterday": "INVALID_REQUEST", "from=2026-03-01T00:00:00Z": "INVALID_REQUEST", "step=x": "INVALID_REQUEST", "step=60&step=60": "INVALID_REQUEST",
		"from=2026-03-01T00:00:00Z&to=2026-03-01T00:01:00Z&step=-60": "INVALID_REQUEST",
	}},
	"StatsService.ListDays": {queries: map[string]string{
		"to=2026-03-01": "INVALID_REQUEST", "from=2026-3-1&to=2026-03-01": "INVALID_REQUEST", "from=2026-03-01&to=2026-03-01&eventId=a.b": "INVALID_REQUEST",
		"from=2026-03-01&to=2026-03-01&limit=1001": "INVALID_REQUEST",
	}},
	"OrderAdminService.SearchOrders": {queries: orderQueries()},
	"OrderAdminService.VoidTicket":   voidReason,
	"OrderAdminService.VoidOrder":    voidReason,

	"CheckInService.CheckIn": {
		required: map[string]string{"code": "INVALID_REQUEST", "eventId": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "code", value: `"` + strings.Repeat("a", 513) + `"`, code: "INVALID_REQUEST"},
			{member: "eventId", value: `"a b"`, code: "INVALID_REQUEST"},
			{member: "deviceId", value: `"a\nb"`, code: "INVALID_REQUEST"},
			{member: "deviceId", value: longText, code: "INVALID_REQUEST"},
		},
	},
	"CheckInService.UndoCheckIn": {
		required: map[string]string{"scanId": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "scanId", value: `"42"`, code: "INVALID_REQUEST"},
			{member: "eventId", value: `"calm"`, code: "UNKNOWN_FIELD"}, // it is in the path
		},
	},
	"CheckInService.UploadScans": {
		required: map[string]string{"epoch": "INVALID_REQUEST", "scans": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "epoch", value: `0`, code: "INVALID_REQUEST"},
			{member: "deviceId", value: longText, code: "INVALID_REQUEST"},
			{member: "scans", value: `[]`, code: "INVALID_REQUEST"},
			{member: "scans", value: `[` + strings.Repeat(scan+",", 200) + scan + `]`, code: "INVALID_REQUEST"},
			{member: "scans", value: `[{"scanId":"42","code":"x","at":"2030-01-01T00:00:00Z"}]`, code: "INVALID_REQUEST", path: "scans[0].scanId"},
			{member: "scans", value: `[{"scanId":"` + requestID + `","code":"","at":"2030-01-01T00:00:00Z"}]`, code: "INVALID_REQUEST", path: "scans[0].code"},
			{member: "scans", value: `[{"scanId":"` + requestID + `","code":"x"}]`, code: "INVALID_REQUEST", path: "scans[0].at"},
		},
	},
	"seats.reserve": {required: map[string]string{"eventId": "INVALID_ID"}, bad: badEvents},
	"reservations.best": {
		required: map[string]string{"eventId": "INVALID_ID"},
		bad:      append([]badValue{{member: "quantity", value: `99999999999`, code: "INVALID_REQUEST"}}, badEvents...),
	},
	"PaymentService.CancelPayment": {},
	"PaymentService.Prepare": {
		required: map[string]string{"paymentType": "INVALID_REQUEST", "referenceId": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "paymentType", value: `"gift"`, code: "INVALID_REQUEST"},
			{member: "referenceId", value: `"42"`, code: "INVALID_REQUEST"},
			{member: "referenceId", value: longText, code: "INVALID_REQUEST"},
			{member: "provider", value: `"0123456789012345678901234567890123"`, code: "INVALID_REQUEST"},
			{member: "provider", value: `"none"`, code: "INVALID_REQUEST"},
		},
	},
	"PaymentService.Confirm": {
		required: map[string]string{"orderId": "INVALID_REQUEST", "paymentKey": "INVALID_REQUEST", "amount": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "orderId", value: longID, code: "INVALID_REQUEST"},
			{member: "paymentKey", value: longText, code: "INVALID_REQUEST"},
			{member: "amount", value: `-1`, code: "INVALID_REQUEST"},
		},
	},
	"RefundService.RefundPayment": {bad: badRefunds},
	"RefundAdminService.RefundAnyPayment": {
		required: map[string]string{"reason": "INVALID_REQUEST"},
		bad:      append([]badValue{{member: "reason", value: `""`, code: "INVALID_REQUEST"}}, badRefunds...),
	},
	"RefundAdminService.RefundMembership": {
		required: map[string]string{"reason": "INVALID_REQUEST"},
		bad:      []badValue{{member: "reason", value: `""`, code: "INVALID_REQUEST"}},
	},
	"RefundAdminService.AssignByHand": {
		bad: []badValue{
			{member: "goodwill", code: "INVALID_REQUEST", path: wholeBody}, // and no tickets
			{member: "goodwill", value: `0`, code: "INVALID_REQUEST"},
			{member: "note", code: "INVALID_REQUEST", path: wholeBody},
			{member: "note", value: `""`, code: "INVALID_REQUEST", path: wholeBody},
			{member: "ticketIds", value: `["` + requestID + `"]`, code: "INVALID_REQUEST", path: wholeBody}, // beside goodwill
		},
	},
	"RefundAdminService.ListRefunds":         {queries: refundQueries()},
	"RefundAdminService.HoldRefund":          {},
	"RefundAdminService.RetryRefund":         {},
	"DisputeAdminService.ListDisputes":       {queries: refundQueries()},
	"DifferenceAdminService.ListDifferences": {queries: refundQueries()},
	"DifferenceAdminService.CloseDifference": {
		required: map[string]string{"note": "INVALID_REQUEST"},
		bad:      []badValue{{member: "note", value: `""`, code: "INVALID_REQUEST"}},
	},
	"RefundAdminService.ResolveRefund": {
		required: map[string]string{"paidOtherwise": "INVALID_REQUEST", "note": "INVALID_REQUEST"},
		bad:      []badValue{{member: "note", value: `""`, code: "INVALID_REQUEST"}},
	},

	"EventAdminService.CreateEvent": sale,
	"EventAdminService.PutEvent": {
		required: sale.required,
		bad:      append([]badValue{{member: "eventId", value: `"calm"`, code: "UNKNOWN_FIELD"}}, sale.bad...), // it is in the path
	},
	"EventAdminService.PauseEvent":      {},
	"EventAdminService.ResumeEvent":     {},
	"EventAdminService.UndoCancelEvent": {},
	"EventAdminService.RefundEvent":     {},
	"EventAdminService.CancelEvent": {bad: []badValue{
		{member: "graceSeconds", value: `-1`, code: "INVALID_REQUEST"},
		{member: "graceSeconds", value: `604801`, code: "INVALID_REQUEST"},
	}},
	"EventAdminService.PostponeEvent": {
		required: map[string]string{"startsAt": "INVALID_REQUEST"},
		bad:      []badValue{{member: "doorsAt", value: `"tomorrow"`, code: "INVALID_REQUEST"}},
	},
	"CompService.CreateComp": {
		required: map[string]string{"name": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "seatIds", value: `"A-1-1"`, code: "INVALID_REQUEST"},
			{member: "quantity", value: `1001`, code: "INVALID_REQUEST"},
			{member: "section", value: `"a b"`, code: "INVALID_REQUEST"},
		},
	},
	"EntitlementService.UseCode": {required: map[string]string{"code": "INVALID_REQUEST"}},
	"EntitlementAdminService.CreateCodes": {
		required: map[string]string{"codeList": "INVALID_REQUEST", "count": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "codeList", value: `"a b"`, code: "INVALID_REQUEST"},
			{member: "count", value: `10001`, code: "INVALID_REQUEST"},
			{member: "uses", value: `-1`, code: "INVALID_REQUEST"},
		},
	},
	"EntitlementAdminService.WithdrawCodes": {},
	"CompService.ClaimComp":                 {required: map[string]string{"claim": "INVALID_REQUEST"}},
	"TransferService.OfferTicket": {bad: []badValue{
		{member: "price", value: `-1`, code: "INVALID_REQUEST"},
		{member: "price", value: `"free"`, code: "INVALID_REQUEST"},
		{member: "deadline", value: `"tomorrow"`, code: "INVALID_REQUEST"},
	}},
	"TransferService.CancelTransfer": {},
	"TransferService.LookAtTransfer": {bad: []badValue{{member: "claim", value: `7`, code: "INVALID_REQUEST"}}},
	"TransferService.AcceptTransfer": {bad: []badValue{{member: "transferId", value: `7`, code: "INVALID_REQUEST"}}},
	"MembershipService.BuyMembership": {
		required: map[string]string{"planId": "INVALID_REQUEST"},
		bad:      []badValue{{member: "planId", value: `7`, code: "INVALID_REQUEST"}},
	},
	"MembershipAdminService.CreatePlan": {
		required: map[string]string{"name": "INVALID_REQUEST", "currency": "INVALID_REQUEST", "months": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "price", value: `-1`, code: "INVALID_REQUEST"},
			{member: "months", value: `121`, code: "INVALID_REQUEST"},
			{member: "currency", value: `"won"`, code: "INVALID_REQUEST"},
		},
	},
	"MembershipAdminService.UpdatePlan": {
		required: map[string]string{"onSale": "INVALID_REQUEST"},
		bad:      []badValue{{member: "onSale", value: `"no"`, code: "INVALID_REQUEST"}},
	},
	"WebhookService.PutWebhook": {
		required: map[string]string{"url": "INVALID_REQUEST", "types": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "types", value: `"TICKETS_SOLD"`, code: "INVALID_REQUEST"},
			{member: "secret", value: `7`, code: "INVALID_REQUEST"},
		},
	},
	"WebhookService.ReplayWebhook": {bad: []badValue{
		{member: "since", value: `"yesterday"`, code: "INVALID_REQUEST"},
		{member: "noticeIds", value: `"1"`, code: "INVALID_REQUEST"},
	}},
	"EventAdminService.PutHouse": {bad: []badValue{
		{member: "take", value: `"A-1-1"`, code: "INVALID_REQUEST"},
		{member: "release", value: `"A-1-1"`, code: "INVALID_REQUEST"},
		{member: "standing", value: `7`, code: "INVALID_REQUEST"},
	}},
	"QueueAdminService.SetThreshold": {
		required: map[string]string{"threshold": "INVALID_REQUEST"},
		bad:      []badValue{{member: "threshold", value: `-1`, code: "INVALID_REQUEST"}},
	},
	"QueueAdminService.Pause":   {},
	"QueueAdminService.Resume":  {},
	"QueueAdminService.Revoke":  lineUser,
	"QueueAdminService.Block":   lineUser,
	"QueueAdminService.Unblock": lineUser,
	"VwrAdminService.Activate": {bad: []badValue{
		{member: "batch", value: `0`, code: "INVALID_REQUEST"},
		{member: "inlet", value: `"OPEN"`, code: "INVALID_REQUEST"},
		{member: "maxInFlight", value: `0`, code: "INVALID_REQUEST"},
		{member: "proofOfWork", value: `-1`, code: "INVALID_REQUEST"},
		{member: "proofOfWork", value: `25`, code: "INVALID_REQUEST"},
	}},
	"VwrAdminService.Advance":    {bad: []badValue{{member: "batchSize", value: `0`, code: "INVALID_REQUEST"}}},
	"VwrAdminService.Deactivate": {},

	"rewards.attend":                    {},
	"rewards.draw":                      {},
	"RewardService.ListMyRewards":       {queries: pageQueries},
	"RewardAdminService.CreateCampaign": campaign,
	"RewardAdminService.CancelCampaign": {},
	"RewardAdminService.ListRewards":    {queries: rewardQueries()},
	"RewardAdminService.RetryReward":    {},
	"RewardAdminService.RetryRewards": {
		required: map[string]string{"status": "INVALID_REQUEST", "eventId": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "status", value: `"SUCCESS"`, code: "INVALID_REQUEST"},
			{member: "eventId", value: longID, code: "INVALID_REQUEST"},
		},
	},
	"RewardAdminService.CancelReward": {},
	"RewardAdminService.ResolveReward": {
		required: map[string]string{"paid": "INVALID_REQUEST"},
		bad:      []badValue{{member: "externalTransactionId", value: longText, code: "INVALID_REQUEST"}},
	},
	"RewardAdminService.PauseProvider":  {},
	"RewardAdminService.ResumeProvider": {},

	"promotions.apply":                     {},
	"IngestService.ListPromotions":         {queries: pageQueries},
	"IngestService.ListMyRequests":         {queries: pageQueries},
	"IngestAdminService.CreatePromotion":   promotion,
	"IngestAdminService.ClosePromotion":    {},
	"IngestAdminService.AnnouncePromotion": {},
	"WorkerAdminService.VoidPromotion":     {},
	"WorkerAdminService.SubmitBeacon": {
		required: map[string]string{"value": "INVALID_REQUEST", "signature": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "value", value: `"ab"`, code: "INVALID_REQUEST"},
			{member: "signature", value: `"` + strings.Repeat("A", 96) + `"`, code: "INVALID_REQUEST"},
		},
	},
	"IngestAdminService.PausePromotion":  {},
	"IngestAdminService.ResumePromotion": {},
	"IngestAdminService.SetExpected": {
		required: map[string]string{"expected": "INVALID_REQUEST"},
		bad: []badValue{
			{member: "expected", value: `{"visitors":1,"withinSeconds":86401}`, code: "INVALID_REQUEST", path: "expected.withinSeconds"},
			{member: "expected", value: `{"visitors":1,"within":60}`, code: "UNKNOWN_FIELD", path: "expected.within"},
		},
	},
	"IngestAdminService.ListRequests":             {queries: requestQueries()},
	"WorkerAdminService.ListAdmissionDeadLetters": {queries: pageQueries},
	"DeadLetterService.ListTopicDeadLetters":      {queries: pageQueries},
	"DeadLetterService.RedriveTopic":              {bad: []badValue{{member: "ids", value: `[""]`, code: "INVALID_REQUEST", path: "ids[0]"}}},
	"WorkerAdminService.RedriveAdmissions":        {bad: []badValue{{member: "ids", value: `[""]`, code: "INVALID_REQUEST", path: "ids[0]"}}},
	"WorkerAdminService.ListDeadLetters":          {queries: pageQueries},
	"WorkerAdminService.RedriveRequests":          {bad: []badValue{{member: "ids", value: `["42"]`, code: "INVALID_REQUEST", path: "ids[0]"}}},
}
