package pages_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

// device is a screen size in which the pages are tested.
type device struct {
	name          string
	width, height int64
	scale         float64
	mobile        bool
}

var (
	phone   = device{name: "phone", width: 390, height: 844, scale: 2, mobile: true}
	desktop = device{name: "desktop", width: 1280, height: 900, scale: 1}
)

// tab is one visitor: a browser context (cookies, storage) with one page.
type tab struct {
	t            *testing.T
	ctx          context.Context //nolint:containedctx // chromedp identifies a tab by its context
	base         string
	device       device
	lang         string
	otherServers []string // URLs of other servers that pages may call
	requests     *traffic

	mu          sync.Mutex
	problems    []string
	dialogs     []string
	screenshots int
}

// openTab opens a tab for a new visitor. The test fails at its end if the page threw an exception,
// violated its CSP, or sent a request to another origin.
func openTab(t *testing.T, base string, d device, lang string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return openIn(t, ctx, base, d, lang)
}

// openBeside opens another tab of the same visitor: both share cookies and storage.
func (b *tab) openBeside() *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	return openIn(b.t, ctx, b.base, b.device, b.lang)
}

func openIn(t *testing.T, ctx context.Context, base string, d device, lang string) *tab {
	t.Helper()
	b := &tab{t: t, ctx: ctx, base: base, device: d, lang: lang, requests: newTraffic()}
	require.NoError(t, chromedp.Do(ctx), "open a tab")
	t.Cleanup(b.reportProblems)
	require.NoError(t, chromedp.Listen(ctx, b.watch))
	call(b, audits.Enable, cdp.Empty{})
	call(b, log.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	call(b, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{
		UserAgent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
		// The browser appends its own weights to these.
		AcceptLanguage: map[string]string{"ko": "ko-KR,ko", "en": "en-US,en"}[lang],
	})
	b.emulate(d, d.width)
	return b
}

// emulate gives the tab the screen of a device, with a width that may be that of the other device.
func (b *tab) emulate(d device, width int64) {
	b.t.Helper()
	options := []chromedp.EmulateViewportOption{chromedp.EmulateScale(d.scale)}
	if d.mobile {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulatePortrait)
	}
	b.do(chromedp.EmulateViewport(width, d.height, options...))
}

// watch runs in the tab's event loop, which must not block: it records events, and answers dialogs
// from another goroutine.
func (b *tab) watch(event any) {
	b.requests.note(event)
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		b.addProblem("exception: " + text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			b.addProblem(fmt.Sprintf("console.error: %v", e.Args))
		}
	case *log.EventEntryAdded:
		// The browser logs each refusal of the API; the pages handle these.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			b.addProblem("browser log: " + e.Entry.Text)
		}
	case *audits.EventIssueAdded:
		if e.Issue.Code == audits.InspectorIssueCodeContentSecurityPolicyIssue {
			b.addProblem(fmt.Sprintf("content security policy: %+v", e.Issue.Details.ContentSecurityPolicyIssueDetails))
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !slices.ContainsFunc(append(b.otherServers, b.base, "data:", "blob:"), func(at string) bool { return strings.HasPrefix(u, at) }) {
			b.addProblem("request to another origin: " + u)
		}
	case *page.EventJavascriptDialogOpening:
		b.mu.Lock()
		b.dialogs = append(b.dialogs, e.Message)
		b.mu.Unlock()
		go func() {
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		}()
	}
}

func (b *tab) addProblem(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, problem)
}

// reportProblems ends the test of a tab: it reports the page's errors and, if the test has failed,
// a picture and the text of the page, and its requests.
func (b *tab) reportProblems() {
	b.mu.Lock()
	problems := slices.Clone(b.problems)
	b.mu.Unlock() // the calls below cause further events
	for _, p := range problems {
		b.t.Error(p)
	}
	if !b.t.Failed() {
		return
	}
	const timeLimit = 5 * time.Second // the browser itself may be the cause of the failure
	ctx, cancel := context.WithTimeout(b.ctx, timeLimit)
	defer cancel()
	pageText, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.pathname + ' says: ' + document.body.innerText"))
	b.t.Logf("the page %s (%v)", pageText, err)
	b.t.Log(b.requests)
	b.screenshot(ctx, "failed")
}

// bounded returns the tab's context with a deadline shortly before the test binary is killed.
func (b *tab) bounded() (context.Context, context.CancelFunc) {
	limit, cancel := testkit.Context(b.t)
	defer cancel()
	if deadline, limited := limit.Deadline(); limited {
		return context.WithDeadline(b.ctx, deadline)
	}
	return context.WithCancel(b.ctx)
}

func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	require.NoError(b.t, err)
	return result
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// runFirst runs a script in each document that is opened from now on, before those of the page.
func (b *tab) runFirst(script string) {
	b.t.Helper()
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// shiftClock makes the clock of documents that are opened from now on differ from the real one.
func (b *tab) shiftClock(by time.Duration) {
	b.t.Helper()
	b.runFirst(fmt.Sprintf("const real = Date.now; Date.now = () => real() + %d", by.Milliseconds()))
}

// visit opens a path of the platform.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// visitElsewhere opens an address of another server.
func (b *tab) visitElsewhere(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
}

// reload reloads the page.
func (b *tab) reload() {
	b.t.Helper()
	b.do(chromedp.Reload())
}

// back presses the browser's back button.
func (b *tab) back() {
	b.t.Helper()
	b.do(chromedp.NavigateBack())
}

// click clicks an element. A click that misses it or has no effect, because the layout of the page
// has just moved, is repeated.
func (b *tab) click(selector string) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	// The element is found before the click, since its event already sees a checkbox as checked.
	watch := fmt.Sprintf(`{
		const wanted = document.querySelector(%q);
		window.clicked = new Promise(hit => document.addEventListener("click",
			e => hit(!wanted?.isConnected || wanted.contains(e.target)), {capture: true, once: true}));
		undefined;
	}`, selector)
	// The event of a touch comes later. A page that has been left since the watch began has no promise.
	const hit = "Promise.race([window.clicked ?? true, new Promise(done => setTimeout(done, 10_000, false))])"
	for range 5 {
		_, _ = tryEval[any](ctx, watch)
		b.onElement(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		if landed, err := tryEval[bool](ctx, hit); landed || err != nil {
			return
		}
	}
	b.t.Fatalf("five clicks on %s at %s had no effect", selector, b.path())
}

func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.onElement(chromedp.SendKeys(chromedp.CSS(selector), text, chromedp.NodeVisible))
}

// onElement finds an element and acts on it. During a navigation the element may disappear before
// the action. The action then had no effect, and is repeated.
func (b *tab) onElement(act chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	var gone *cdproto.Error
	for {
		err := chromedp.Do(ctx, act)
		if errors.As(err, &gone) && gone.Message == "Could not find node with given id" {
			continue
		}
		require.NoError(b.t, err)
		return
	}
}

// press sends keys to the focused element.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// eval evaluates an expression; promises are awaited.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, "evaluate %s", expression)
	return v
}

// answerWithin is the time limit of tryEval. A call of untilAny takes 2 s.
const answerWithin = 10 * time.Second

// tryEval is eval for a page that is perhaps being left. Such a page returns an error, or no answer.
func tryEval[T any](ctx context.Context, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits for an expression to become true, across navigations.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	b.untilAny(what, expression)
}

// longestWait is the time within which a page has to show what a test waits for, on a busy machine.
const longestWait = 10 * time.Minute

// untilAny waits for one of several expressions to become true and returns the index of the first.
// The page itself polls, so that a wait causes no traffic; an expression that throws is not true
// yet.
func (b *tab) untilAny(what string, expressions ...string) int {
	b.t.Helper()
	// One call lasts 2 s, because the page may have changed by then. The first polls are frequent;
	// later ones are further apart, since the pages of all tests share two processors.
	script := fmt.Sprintf(`new Promise(done => {
		const wanted = [() => %s];
		const holds = f => { try { return !!f() } catch { return false } };
		const end = performance.now() + 2000;
		const poll = pause => {
			const found = wanted.findIndex(holds);
			found >= 0 || performance.now() > end ? done(found) : setTimeout(poll, pause, Math.min(100, 1.2 * pause));
		};
		poll(20);
	})`, strings.Join(expressions, ", () => "))
	ctx, cancel := b.bounded()
	defer cancel()
	found, start := -1, time.Now()
	testkit.Until(b.t, func() bool {
		if time.Since(start) > longestWait {
			b.t.Fatalf("after %v the page does not show: %s", longestWait, what)
		}
		index, err := tryEval[int](ctx, script)
		if err != nil { // retry on the next page
			return false
		}
		found = index
		return found >= 0
	}, "%s", what)
	return found
}

// waitForPath waits until the page is at a path and has rendered its content.
func (b *tab) waitForPath(prefix string) {
	b.t.Helper()
	b.until("the page "+prefix, fmt.Sprintf("location.pathname.startsWith(%q) && document.readyState === 'complete'", prefix))
}

// waitFor waits until an element exists and is visible.
func (b *tab) waitFor(selector string) {
	b.t.Helper()
	b.until(selector, visible(selector))
}

// visible returns the JavaScript expression that is true if the element is visible.
func visible(selector string) string {
	return fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", selector)
}

// waitForText waits until the page's text contains a string.
func (b *tab) waitForText(sentence string) {
	b.t.Helper()
	b.until("the words "+sentence, says(sentence))
}

// says returns the JavaScript expression that is true if the page shows the text.
func says(sentence string) string {
	return fmt.Sprintf("document.body.innerText.includes(%q)", sentence)
}

// waitForDialog waits for a dialog with this text. All dialogs are accepted.
func (b *tab) waitForDialog(words string) {
	b.t.Helper()
	testkit.Until(b.t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.Contains(b.dialogs, words)
	}, "a dialog that says %q", words)
}

func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

func (b *tab) path() string {
	b.t.Helper()
	return eval[string](b, "location.pathname")
}

// link returns the query and the fragment of the page's URL.
func (b *tab) link() string {
	b.t.Helper()
	return eval[string](b, "location.search + location.hash")
}
