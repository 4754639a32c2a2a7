package app_test

import (
	"strings"

	"urr.guru/services/gateway/internal/edge"
)

// target returns the path of a route, with values for the parameters of its pattern.
func target(r *edge.Route, event string) string {
	segs := strings.Split(r.Pattern, "/")
	for i, s := range segs {
		switch {
		case s == "{event_id}":
			segs[i] = event
		case s == "{provider}":
			segs[i] = "sandbox"
		case s == "{file}":
			segs[i] = "none.js"
		case s == "{allocation_id}":
			segs[i] = "23"
		case s == "{topic}":
			segs[i] = "payment-events"
		case s == "{round}":
			segs[i] = "7"
		case s == "{name}":
			segs[i] = "point"
		case strings.HasPrefix(s, "{"):
			segs[i] = requestID
		}
	}
	return strings.Join(segs, "/")
}

// bodyFor returns a valid body for every route that reads one.
func bodyFor(r *edge.Route, event string) string {
	sale := `{"title":"T","artist":"A","venue":"V","startsAt":"2030-01-01T10:00:00Z","salesOpenAt":"2029-01-01T10:00:00Z",
		"salesCloseAt":"2029-12-31T10:00:00Z","seating":"GENERAL","currency":"KRW","maxPerUser":4,"sections":[{"section":"A","price":1000,"capacity":10}]}`
	switch r.ID {
	case "auth.dev-login":
		return `{"userId":"alice"}`
	case "sessions.revoke":
		return `{"userId":"nobody"}`
	case "seats.reserve":
		return `{"eventId":"` + event + `","seatIds":["A-1-1"]}`
	case "reservations.best":
		return `{"eventId":"` + event + `","section":"A","quantity":2}`
	case "EventAdminService.CreateEvent", "EventAdminService.PutEvent":
		return sale
	case "entitlements.put":
		return "userId,email\nalice,\n"
	case "EntitlementService.UseCode":
		return `{"code":"c"}`
	case "EntitlementAdminService.CreateCodes":
		return `{"codeList":"friends","count":2}`
	case "CompService.CreateComp":
		return `{"name":"Press","seatIds":["A-1-1"]}`
	case "WebhookService.PutWebhook":
		return `{"url":"https://example.com","types":["TICKETS_ISSUED"]}`
	case "CompService.ClaimComp":
		return `{"claim":"c"}`
	case "EventAdminService.PostponeEvent":
		return `{"startsAt":"2031-01-01T10:00:00Z"}`
	case "QueueAdminService.SetThreshold":
		return `{"threshold":100}`
	case "QueueAdminService.Revoke", "QueueAdminService.Block", "QueueAdminService.Unblock":
		return `{"userId":"nobody"}`
	case "CheckInService.CheckIn":
		return `{"eventId":"` + event + `","code":"x"}`
	case "CheckInService.UndoCheckIn":
		return `{"scanId":"` + requestID + `"}`
	case "CheckInService.UploadScans":
		return `{"epoch":1,"scans":[` + scan + `]}`
	case "PaymentService.Prepare":
		return `{"paymentType":"reservation","referenceId":"` + requestID + `"}`
	case "RewardAdminService.CreateCampaign":
		return `{"title":"March","kind":"ATTENDANCE","opensAt":"2026-03-01T00:00:00Z","closesAt":"2026-04-01T00:00:00Z","daily":{"kind":"POINT","value":10}}`
	case "RewardAdminService.RetryRewards":
		return `{"status":"FAILED","eventId":"` + event + `"}`
	case "RewardAdminService.ResolveReward":
		return `{"paid":true,"externalTransactionId":"t-1"}`
	case "IngestAdminService.CreatePromotion":
		return `{"title":"Shoes","eventType":"FIRST_COME","capacityTotal":5,"opensAt":"2026-03-01T00:00:00Z","closesAt":"2026-04-01T00:00:00Z"}`
	case "IngestAdminService.SetExpected":
		return `{"expected":{"visitors":1000,"withinSeconds":60}}`
	case "WorkerAdminService.SubmitBeacon":
		return `{"value":"` + strings.Repeat("ab", 32) + `","signature":"` + strings.Repeat("ab", 48) + `"}`
	case "RefundAdminService.RefundAnyPayment", "RefundAdminService.RefundMembership", "OrderAdminService.VoidTicket", "OrderAdminService.VoidOrder":
		return `{"reason":"goodwill"}`
	case "RefundAdminService.AssignByHand":
		return `{"goodwill":1000,"note":"late doors"}`
	case "MembershipService.BuyMembership":
		return `{"planId":"` + requestID + `"}`
	case "MembershipAdminService.CreatePlan":
		return `{"name":"Friends","price":9900,"currency":"KRW","months":12}`
	case "MembershipAdminService.UpdatePlan":
		return `{"onSale":false}`
	case "RefundAdminService.ResolveRefund":
		return `{"paidOtherwise":true,"note":"by bank"}`
	case "DifferenceAdminService.CloseDifference":
		return `{"note":"written off"}`
	case "PaymentService.Confirm":
		return `{"orderId":"o-1","paymentKey":"ok-1","amount":55000}`
	}
	return ""
}
