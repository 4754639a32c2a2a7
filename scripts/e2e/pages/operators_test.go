package pages_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// testOperatorsActs: the page of a line says that an operator has paused it or has blocked the
// visitor, who loses the place. Once unblocked, the visitor joins again and gets in.
func testOperatorsActs(t *testing.T) {
	t.Parallel()
	blocked := map[string]string{"en": "Your account may not join this line.", "ko": "이 대기열에 참여할 수 없는 계정입니다."}
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			event, user, operator := sale{}.open(t), uniqueID("suspect"), signIn(t, "admin")
			act := func(name string, body object) {
				t.Helper()
				operator.call(http.MethodPost, "/api/v1/queue/admin/"+event+"/"+name, body)
			}
			act("pause", object{})
			b := openTab(t, platformURL, p.device, p.lang)
			b.startSession(user)
			b.visit("/queue/" + event)
			b.waitFor("#position")
			b.waitForText(words(t, p.lang)["queue"]["paused"])
			b.checkPage("paused line")

			act("block", object{"userId": user})
			b.waitForText(blocked[p.lang])
			require.True(t, eval[bool](b, "document.querySelector('#position') === null"))
			b.checkPage("blocked")

			act("unblock", object{"userId": user})
			act("resume", object{})
			b.click(".notice button")
			b.waitForPath("/events/" + event + "/seats")
		})
	}
}
