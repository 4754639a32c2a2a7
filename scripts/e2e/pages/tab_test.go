package pages_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience bounds every single wait for the page; nothing here is that slow.
const patience = time.Minute

// device is a size of screen that the pages are tested at.
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

// tab is one visitor: a browser context of their own (cookies, storage) with one page in it.
type tab struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // to chromedp, a tab is its context
	base  string
	lang  string
	shots string

	mu       sync.Mutex
	problems []string
	dialogs  []string
	count    int
}

// open gives a new visitor. What the page does wrong by itself (exceptions, refused by its own CSP, requests to
// another origin) fails the test when it ends.
func open(t *testing.T, base string, d device, lang string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: base, lang: lang, shots: strings.NewReplacer("/", "-", " ", "_").Replace(t.Name())}
	require.NoError(t, chromedp.Do(ctx), "open a tab")
	require.NoError(t, chromedp.Listen(ctx, b.watch))
	call(b, audits.Enable, cdp.Empty{})
	call(b, log.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	call(b, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{
		UserAgent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
		// With weights the browser would put its own after them.
		AcceptLanguage: map[string]string{"ko": "ko-KR,ko", "en": "en-US,en"}[lang],
	})
	options := []chromedp.EmulateViewportOption{chromedp.EmulateScale(d.scale)}
	if d.mobile {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulatePortrait)
	}
	b.do(chromedp.EmulateViewport(d.width, d.height, options...))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			t.Error(p)
		}
	})
	return b
}

// watch runs in the tab's own loop: it only notes, and answers dialogs from elsewhere.
func (b *tab) watch(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		b.blame("exception: " + text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			b.blame(fmt.Sprintf("console.error: %v", e.Args))
		}
	case *log.EventEntryAdded:
		// Refusals of the API are answers that the page handles; the browser logs each of them.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			b.blame("browser log: " + e.Entry.Text)
		}
	case *audits.EventIssueAdded:
		if e.Issue.Code == audits.InspectorIssueCodeContentSecurityPolicyIssue {
			b.blame(fmt.Sprintf("content security policy: %+v", e.Issue.Details.ContentSecurityPolicyIssueDetails))
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, b.base) && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "blob:") {
			b.blame("request to another origin: " + u)
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

// heard waits for a dialog with these words; all are accepted.
func (b *tab) heard(words string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.Contains(b.dialogs, words)
	}, patience, 40*time.Millisecond, "a dialog that says %q", words)
}

func (b *tab) blame(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, problem)
}

func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, command, params)
	require.NoError(b.t, err)
	return result
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...), "at %s", b.path())
}

// visit opens a path of the platform.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// reload opens the page again as it stands.
func (b *tab) reload() {
	b.t.Helper()
	b.do(chromedp.Reload())
}

// back is the browser's own way back.
func (b *tab) back() {
	b.t.Helper()
	b.do(chromedp.NavigateBack())
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(selector), text, chromedp.NodeVisible))
}

// press sends keys to whatever has the focus.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// eval evaluates an expression, promises awaited.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, "evaluate %s", expression)
	return v
}

// until waits for an expression to become true, across navigations.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for {
		// An error is a page that is just being left: ask again.
		if ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")")); err == nil && ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.shot("failed")
			b.t.Fatalf("waited in vain for %s at %s; the page says: %s", what, b.path(), b.text("body"))
		}
	}
}

// arrive waits until the page is at a path and has drawn its content.
func (b *tab) arrive(prefix string) {
	b.t.Helper()
	b.until("the page "+prefix, fmt.Sprintf("location.pathname.startsWith(%q) && document.readyState === 'complete'", prefix))
}

// see waits until an element is there and seen.
func (b *tab) see(selector string) {
	b.t.Helper()
	b.until(selector, fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", selector))
}

// say waits until the page's text holds a sentence.
func (b *tab) say(sentence string) {
	b.t.Helper()
	b.until("the words "+sentence, fmt.Sprintf("document.body.innerText.includes(%q)", sentence))
}

func (b *tab) text(selector string) string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector)))
	return text
}

func (b *tab) path() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	path, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("location.pathname"))
	return path
}

// inspect checks a page as it stands: its language, that nothing overflows, accessibility; and keeps a picture.
func (b *tab) inspect(name string) {
	b.t.Helper()
	require.Equal(b.t, b.lang, eval[string](b, "document.documentElement.lang"), "language of %s", b.path())
	wide := eval[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth")
	b.shot(name)
	require.LessOrEqual(b.t, wide, 0, "%s is wider than the screen", b.path())
	b.accessible(name)
}

type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// accessible runs axe-core with every rule of WCAG 2.2 AA and its best practices.
func (b *tab) accessible(name string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](axe + "\n;1"))
	raw := eval[string](b, `axe.run(document, {resultTypes: ["violations"], runOnly:
		["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => JSON.stringify(r.violations))`)
	var found []violation
	require.NoError(b.t, json.Unmarshal([]byte(raw), &found))
	for _, v := range found {
		for _, n := range v.Nodes {
			b.t.Errorf("%s: %s (%s)\n%s\n%s", name, v.Help, v.ID, n.HTML, n.Summary)
		}
	}
}

// shot keeps a picture of the whole page under .urr/e2e.
func (b *tab) shot(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Logf("no picture of %s: %v", name, err)
		return
	}
	b.count++
	file := filepath.Join(pictures, fmt.Sprintf("%s-%02d-%s.png", b.shots, b.count, name))
	require.NoError(b.t, os.WriteFile(file, picture, 0o644))
}
