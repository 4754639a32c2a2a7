package problem

import "urr.guru/pkg/errs"

// userSentence returns the sentence shown to the user. A code that is not in details, for example
// of a service that was upgraded before the gateway, gets the sentence for its kind.
func userSentence(e *errs.Error, lang string) string {
	d, ok := details[e.Reason]
	switch {
	case !ok:
		return englishSentence(e) + "."
	case lang == "ko":
		return d.ko
	default:
		return d.en
	}
}

type sentences struct{ en, ko string }

// details has the sentences of every code of errs.Catalogue; a test compares the two.
var details = map[string]sentences{
	"INVALID_REQUEST":        {"Something in the request is not right.", "요청 내용이 올바르지 않습니다."},
	"UNKNOWN_FIELD":          {"The request has a member that does not exist.", "요청에 알 수 없는 항목이 있습니다."},
	"BODY_TOO_LARGE":         {"The request is too large.", "요청 본문이 너무 큽니다."},
	"INVALID_UTF8":           {"The request is not encoded as UTF-8.", "요청이 UTF-8로 인코딩되지 않았습니다."},
	"INVALID_ID":             {"An id in the request is not well-formed.", "요청에 포함된 ID의 형식이 올바르지 않습니다."},
	"INVALID_CURSOR":         {"This list cannot be continued from there. Start again.", "목록을 이어서 볼 수 없습니다. 처음부터 다시 조회해 주세요."},
	"METHOD_NOT_ALLOWED":     {"This cannot be done here.", "지원하지 않는 요청 방식입니다."},
	"UNSUPPORTED_MEDIA_TYPE": {"The request must be sent as application/json.", "요청은 application/json 형식이어야 합니다."},
	"NOT_FOUND":              {"There is nothing at this address.", "요청하신 주소를 찾을 수 없습니다."},
	"CONFLICT":               {"This is not possible as things stand.", "현재 상태에서는 처리할 수 없습니다."},
	"RANGE_NOT_SATISFIABLE":  {"The file does not have the requested part.", "요청한 범위가 파일에 없습니다."},
	"PRECONDITION_FAILED":    {"This has been changed in the meantime. Read it again before you change it.", "그 사이에 내용이 변경되었습니다. 다시 조회한 뒤 변경해 주세요."},
	"UNPROCESSABLE":          {"The request contradicts an earlier one.", "이전 요청과 내용이 일치하지 않습니다."},

	"UNAUTHENTICATED":  {"Please sign in.", "로그인이 필요합니다."},
	"SESSION_INVALID":  {"Your session has ended. Please sign in again.", "세션이 만료되었습니다. 다시 로그인해 주세요."},
	"VISITOR_REQUIRED": {"Please allow cookies and open the waiting room again.", "쿠키를 허용한 뒤 대기실을 다시 열어 주세요."},
	"FORBIDDEN":        {"You may not do this.", "접근 권한이 없습니다."},
	"ROLE_REQUIRED":    {"Your account may not do this.", "이 작업을 수행할 권한이 없는 계정입니다."},
	"ORIGIN_REQUIRED":  {"Please use the site's own address.", "사이트의 공식 주소로 접속해 주세요."},
	"CROSS_ORIGIN":     {"The request came from another site.", "다른 사이트에서 보낸 요청은 처리할 수 없습니다."},
	"CALLER_REFUSED":   {"This call is not allowed.", "허용되지 않은 호출입니다."},

	"RATE_LIMITED":      {"Too many requests. Please wait a moment.", "요청이 너무 많습니다. 잠시 후 다시 시도해 주세요."},
	"OVERLOADED":        {"Very many people are here right now. Please try again in a moment.", "접속자가 많습니다. 잠시 후 다시 시도해 주세요."},
	"CANCELED":          {"The request was given up.", "요청이 취소되었습니다."},
	"UNAVAILABLE":       {"This does not work at the moment. Please try again shortly.", "일시적으로 이용할 수 없습니다. 잠시 후 다시 시도해 주세요."},
	"DEADLINE_EXCEEDED": {"This took too long. Please look whether it took effect before you try again.", "처리 시간이 초과되었습니다. 다시 시도하기 전에 처리 여부를 확인해 주세요."},
	"AUDIT_UNAVAILABLE": {"This was not done, since it cannot be recorded at the moment. Please try again shortly.", "현재 작업 기록을 남길 수 없어 실행되지 않았습니다. 잠시 후 다시 시도해 주세요."},
	"INTERNAL":          {"Something went wrong on our side.", "서버에서 오류가 발생했습니다."},

	"IDEMPOTENCY_KEY_REQUIRED": {"The request needs an Idempotency-Key.", "Idempotency-Key 헤더가 필요합니다."},
	"IDEMPOTENCY_KEY_INVALID":  {"The Idempotency-Key is not well-formed.", "Idempotency-Key 헤더의 형식이 올바르지 않습니다."},
	"IDEMPOTENCY_KEY_REUSED":   {"This Idempotency-Key was used for something else.", "이 Idempotency-Key는 다른 요청에 이미 사용되었습니다."},
	"IDEMPOTENCY_IN_PROGRESS":  {"The same request is still running.", "같은 요청이 아직 처리 중입니다."},

	"VWR_INACTIVE":        {"There is no waiting room for this event right now. You can go straight on.", "현재 이 공연에는 대기실이 없습니다. 바로 이동하실 수 있습니다."},
	"VWR_REQUEST_UNKNOWN": {"Your place in the waiting room has expired. Please get a new one.", "대기 순번이 만료되었습니다. 새 순번을 받아 주세요."},
	"VWR_TOKEN_REQUIRED":  {"Please pass through the waiting room first.", "먼저 대기실을 통과해 주세요."},
	"PROOF_REQUIRED":      {"Your browser has to do a short computation first. Please reload the page.", "먼저 브라우저에서 간단한 계산을 해야 합니다. 페이지를 새로고침해 주세요."},
	"CAPTCHA_REQUIRED":    {"Please show that you are a person first. Reload the page to try again.", "먼저 사람임을 확인해 주세요. 페이지를 새로고침하면 다시 시도할 수 있습니다."},
	"LOBBY_OPEN":          {"Places are given out when the waiting room opens.", "대기실이 열릴 때 순번이 정해집니다."},
	"ASK_LATER":           {"So many came that each visitor asks at an own time. Yours has not come yet.", "방문자가 많아 각자 정해진 시각에 요청합니다. 아직 차례가 아닙니다."},
	"LOBBY_CLOSED":        {"You cannot join at present.", "지금은 참여할 수 없습니다."},
	"LOBBY_FIXED":         {"The start of a running waiting room cannot be changed. Deactivate it first.", "운영 중인 대기실의 시작 시각은 변경할 수 없습니다. 먼저 비활성화해 주세요."},
	"LOBBY_NOT_FOUND":     {"There is nothing to see about this draw yet.", "아직 공개된 추첨 정보가 없습니다."},

	"ENTITLEMENT_UNKNOWN":  {"It is not known at the moment whether you may buy in the presale.", "지금은 선예매 대상인지 확인할 수 없습니다."},
	"PASS_USED":            {"This place in the waiting room was used by another account.", "이 대기 순번은 다른 계정에서 이미 사용했습니다."},
	"QUEUE_TOKEN_REQUIRED": {"Please wait in line for this event first.", "먼저 대기열을 통과해 주세요."},
	"SLOT_ENDED":           {"Your time in the shop has ended. Please queue again.", "이용 시간이 종료되었습니다. 대기열에 다시 참여해 주세요."},
	"USER_BLOCKED":         {"Your account may not join this line.", "이 대기열에 참여할 수 없는 계정입니다."},
	"TOO_MANY_BLOCKED":     {"No more users can be blocked from this line. Unblock others first.", "이 대기열에는 더 이상 이용자를 차단할 수 없습니다. 다른 이용자의 차단을 먼저 해제해 주세요."},
	"LINE_RECOVERING":      {"The line is being restored. Your place is kept.", "대기열을 복구하고 있습니다. 순번은 유지됩니다."},

	"EVENT_NOT_FOUND": {"This event does not exist.", "존재하지 않는 공연입니다."},
	"EVENT_LOCKED":    {"This can no longer be changed: the sale has begun.", "판매가 시작되어 변경할 수 없습니다."},
	"EVENT_CANCELLED": {"The event is cancelled.", "취소된 공연입니다."},

	"EVENT_NOT_CANCELLED": {"The event is not cancelled.", "취소된 공연이 아닙니다."},
	"REFUNDS_BEGUN":       {"The refunds have begun, so the cancellation can no longer be undone.", "환불이 시작되어 취소를 되돌릴 수 없습니다."},
	"USE_POSTPONE":        {"Tickets are sold already. Postpone the event to move its times.", "이미 판매된 티켓이 있습니다. 공연 일시는 연기 기능으로 변경해 주세요."},
	"START_PAST":          {"The new start must be in the future.", "새 공연 일시는 현재 이후여야 합니다."},

	"WRONG_EVENT":        {"Your entry is for another event.", "다른 공연의 입장권입니다."},
	"SALE_NOT_OPEN":      {"The sale is not open.", "판매 기간이 아닙니다."},
	"NOT_ENTITLED":       {"Before the general sale only holders of an entitlement can buy.", "일반 예매 전에는 선예매 대상자만 예매할 수 있습니다."},
	"SEATING_MISMATCH":   {"The tickets of this event are not sold this way.", "이 공연은 해당 방식으로 예매할 수 없습니다."},
	"SECTION_NOT_FOUND":  {"This section does not exist.", "존재하지 않는 구역입니다."},
	"SEAT_NOT_FOUND":     {"This seat does not exist.", "존재하지 않는 좌석입니다."},
	"SEAT_TAKEN":         {"Somebody was faster: the seat is taken.", "이미 선택된 좌석입니다."},
	"LIMIT_EXCEEDED":     {"You have reached the limit per person.", "1인당 예매 한도를 초과했습니다."},
	"HOLD_PAUSED":        {"You have held places of this event several times without paying for them. Please wait before you hold others.", "이 공연의 자리를 여러 번 선점하고 결제하지 않으셨습니다. 잠시 기다린 뒤 다시 선점해 주세요."},
	"TOO_MANY_RETURNS":   {"You have given back places of this event, and cannot hold that many more.", "환불하신 자리가 있어 이 공연의 자리를 그만큼 더 선점할 수 없습니다."},
	"SOLD_OUT":           {"Not enough is left.", "남은 수량이 부족합니다."},
	"SEATS_NOT_ADJACENT": {"No row has as many free seats next to each other. Choose fewer, another section, or seats apart.", "나란히 붙은 좌석이 그만큼 남아 있지 않습니다. 수량을 줄이거나 다른 구역 또는 떨어진 좌석을 선택해 주세요."},
	"TRY_AGAIN":          {"Others are choosing right now. Please try again.", "다른 사용자가 선택하고 있습니다. 다시 시도해 주세요."},

	"RESERVATION_NOT_FOUND": {"This reservation does not exist.", "존재하지 않는 예약입니다."},
	"RESERVATION_NOT_HELD":  {"This reservation is not held any more.", "더 이상 선점 상태가 아닌 예약입니다."},
	"HOLD_EXPIRED":          {"The time to pay is over and the tickets are on sale again.", "결제 시간이 지나 선점이 해제되었습니다."},
	"CODE_INVALID":          {"This code is wrong, used up, or no longer valid.", "코드가 올바르지 않거나 이미 사용되었습니다."},
	"TOO_MANY_CODES":        {"You have tried too many wrong codes. Please try again in an hour.", "코드를 너무 많이 틀렸습니다. 한 시간 뒤에 다시 시도해 주세요."},
	"BATCH_NOT_FOUND":       {"There is no such batch of codes.", "해당 코드 묶음이 없습니다."},
	"UPLOAD_NOT_FOUND":      {"This upload does not exist, or has ended.", "업로드가 없거나 이미 끝났습니다."},
	"TRANSFER_NOT_FOUND":    {"There is no such offer, or it is for somebody else.", "제안을 찾을 수 없거나 다른 사람에게 보낸 제안입니다."},
	"NOT_TRANSFERABLE":      {"This ticket cannot be passed on like this.", "이 티켓은 이 조건으로 양도할 수 없습니다."},
	"TRANSFER_ENDED":        {"This offer has ended.", "종료된 제안입니다."},
	"TRANSFER_TAKEN":        {"Somebody else has accepted this offer. It may be open again in a while.", "다른 사람이 먼저 수락했습니다. 결제가 이루어지지 않으면 다시 열립니다."},
	"TRANSFER_GIVEN_UP":     {"You have given this offer up, and cannot accept it again.", "받지 않기로 하신 제안은 다시 수락하실 수 없습니다."},
	"OWN_TRANSFER":          {"This is your own ticket.", "본인의 티켓입니다."},
	"BUYER_BLOCKED":         {"You cannot take tickets of this event.", "이 공연의 티켓을 받을 수 없습니다."},
	"PLAN_NOT_FOUND":        {"This membership plan does not exist.", "존재하지 않는 멤버십 상품입니다."},
	"PLAN_NOT_ON_SALE":      {"This membership plan is not on sale.", "판매 중이 아닌 멤버십 상품입니다."},
	"MEMBERSHIP_AHEAD":      {"You have bought your next membership already. The one after it is on sale once that one begins.", "다음 기간의 멤버십을 이미 구매하셨습니다. 그 기간이 시작되면 다시 구매하실 수 있습니다."},
	"FREE_PLAN_ONCE":        {"You have had this free membership already. Everybody gets it once.", "무료 멤버십은 한 번만 이용하실 수 있습니다."},
	"MEMBERSHIP_NOT_FOUND":  {"This membership does not exist.", "존재하지 않는 멤버십입니다."},
	"WEBHOOK_NOT_FOUND":     {"This webhook does not exist.", "존재하지 않는 웹훅입니다."},
	"TOO_MANY_WEBHOOKS":     {"There are 20 webhooks already. Delete one first.", "웹훅은 20개까지 만들 수 있습니다. 먼저 하나를 삭제해 주세요."},
	"TICKET_NOT_FOUND":      {"This ticket does not exist.", "존재하지 않는 티켓입니다."},
	"NOT_VOIDABLE":          {"This cannot be voided: it has ended, or is being refunded or passed on right now.", "이미 끝났거나 환불 또는 양도가 진행 중이어서 무효 처리할 수 없습니다."},
	"TICKET_CODE_INVALID":   {"This ticket code is not genuine.", "유효하지 않은 티켓 코드입니다."},

	"ALREADY_USED":   {"This ticket has been used already.", "이미 사용된 티켓입니다."},
	"NOT_VALID":      {"This ticket is not valid here.", "이곳에서 사용할 수 없는 티켓입니다."},
	"LIST_NOT_READY": {"The list for the doors is not ready yet.", "아직 입장 명단이 준비되지 않았습니다."},
	"SCAN_NOT_FOUND": {"This check-in does not exist.", "존재하지 않는 입장 기록입니다."},
	"UNDO_TOO_LATE":  {"This check-in can no longer be undone.", "입장 처리를 더 이상 취소할 수 없습니다."},

	"PAYMENT_NOT_FOUND":         {"This payment does not exist.", "존재하지 않는 결제입니다."},
	"REFERENCE_NOT_FOUND":       {"What is to be paid does not exist.", "결제 대상을 찾을 수 없습니다."},
	"NOT_PAYABLE":               {"This cannot be paid any more.", "더 이상 결제할 수 없습니다."},
	"ALREADY_PAID":              {"This is paid already.", "이미 결제되었습니다."},
	"AMOUNT_MISMATCH":           {"The amount is not the one to be paid.", "결제 금액이 일치하지 않습니다."},
	"PAYMENT_EXPIRED":           {"The payment has expired.", "결제 유효 시간이 지났습니다."},
	"PAYMENT_IN_PROGRESS":       {"The payment is in progress.", "결제가 진행 중입니다."},
	"PROVIDER_UNKNOWN":          {"This payment provider is not known.", "알 수 없는 결제사입니다."},
	"ONLY_WHOLE_ORDER":          {"By this way of paying, only the whole order can be given back, with all that was paid. Ask the organiser.", "이 결제 수단은 주문 전체를 전액으로만 환불할 수 있습니다. 주최자에게 문의해 주세요."},
	"AMOUNT_NOT_TAKEN":          {"The payment provider does not take this currency or amount. You have not been charged.", "결제사가 이 통화나 금액을 처리하지 않습니다. 결제되지 않았습니다."},
	"SETTLEMENT_DELAYED":        {"Payments are not taken for a moment. You have not been charged, and your places are still held. Please try again shortly.", "잠시 결제를 받지 않고 있습니다. 결제되지 않았으며 선택하신 자리는 그대로 유지됩니다. 잠시 후 다시 시도해 주세요."},
	"PROVIDER_UNAVAILABLE":      {"Paying is not possible at the moment. You have not been charged. Please try again shortly.", "지금은 결제할 수 없습니다. 결제되지 않았습니다. 잠시 후 다시 시도해 주세요."},
	"NOT_REFUNDABLE":            {"This cannot be given back.", "환불할 수 없습니다."},
	"AMOUNT_CHANGED":            {"You would get back less than was shown. Nothing was given back. Please look at the new amount.", "환불 금액이 표시된 금액보다 줄어 환불하지 않았습니다. 새 금액을 확인해 주세요."},
	"TICKETS_PENDING":           {"What was paid for is being issued. Please try again in a moment.", "결제하신 내역을 발급하고 있습니다. 잠시 후 다시 시도해 주세요."},
	"REFUND_NOT_FOUND":          {"This refund does not exist.", "존재하지 않는 환불입니다."},
	"REFUND_NOT_HELD":           {"Only a refund that waits for an operator can be decided on.", "운영자 확인을 기다리는 환불만 처리할 수 있습니다."},
	"REFUND_NOT_PENDING":        {"Only a refund that waits for the payment provider can be held.", "결제사 처리를 기다리는 환불만 보류할 수 있습니다."},
	"REFUND_NOT_PAID":           {"No refund made by hand at the payment provider covers this one.", "결제사에서 직접 처리한 환불 내역 중 이 환불에 해당하는 금액이 없습니다."},
	"NOTHING_BY_HAND":           {"Not that much was given back at the payment provider without being assigned.", "결제사에서 직접 환불한 금액 중 아직 용도가 정해지지 않은 금액이 그만큼 없습니다."},
	"DIFFERENCE_NOT_FOUND":      {"This difference does not exist.", "존재하지 않는 차이입니다."},
	"DIFFERENCE_NOT_OPEN":       {"Only an open difference can be closed.", "처리되지 않은 차이만 종결할 수 있습니다."},
	"WEBHOOK_SIGNATURE_INVALID": {"The signature is not valid.", "서명이 유효하지 않습니다."},

	"CAMPAIGN_NOT_FOUND":     {"This campaign does not exist.", "존재하지 않는 캠페인입니다."},
	"REWARD_NOT_FOUND":       {"This reward does not exist.", "존재하지 않는 리워드입니다."},
	"NOT_WITHDRAWABLE":       {"This request can no longer be withdrawn.", "더 이상 응모를 취소할 수 없습니다."},
	"WITHDRAWN_TOO_OFTEN":    {"You have withdrawn too often to apply again.", "응모를 여러 번 취소하여 다시 응모할 수 없습니다."},
	"DRAW_NOT_FOUND":         {"There is no draw.", "추첨이 없습니다."},
	"DRAW_EXPIRED":           {"The lists of this draw have been deleted. A copy that was saved before can still be verified.", "이 추첨의 명단은 보관 기간이 지나 삭제되었습니다. 그전에 저장한 사본은 계속 검증할 수 있습니다."},
	"BEACON_UNAVAILABLE":     {"No source of the beacon answers, so nothing was opened. Please try again.", "비콘 값을 제공하는 서버가 응답하지 않아 개설하지 않았습니다. 다시 시도해 주세요."},
	"ENTRIES_NOT_PUBLIC":     {"The entries are published shortly after the cutoff.", "응모 명단은 마감 직후에 공개됩니다."},
	"ANNOUNCEMENT_EARLY":     {"The result is not announced yet.", "아직 결과가 발표되지 않았습니다."},
	"DRAW_FIXED":             {"The draw can no longer be cancelled: its result may be known.", "추첨 결과를 알 수 있는 시점이 지나 추첨을 취소할 수 없습니다."},
	"NOT_OPEN":               {"You cannot take part at present.", "지금은 참여할 수 없습니다."},
	"DRAWS_USED_UP":          {"You have used up all your draws.", "추첨 횟수를 모두 사용하셨습니다."},
	"REWARD_NOT_RETRYABLE":   {"Only a reward that has failed can be paid again.", "지급에 실패한 리워드만 다시 지급할 수 있습니다."},
	"REWARD_NOT_CANCELLABLE": {"A reward that is paid cannot be cancelled.", "이미 지급된 리워드는 취소할 수 없습니다."},
	"REWARD_NOT_HELD":        {"Only a reward that waits for an operator can be decided on.", "운영자 확인을 기다리는 리워드만 처리할 수 있습니다."},

	"PROMOTION_NOT_FOUND": {"This promotion does not exist.", "존재하지 않는 프로모션입니다."},
	"REQUEST_NOT_FOUND":   {"This request does not exist.", "존재하지 않는 신청입니다."},
}
