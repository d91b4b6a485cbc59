# What the narrator (`recount narrate`) says in its own words, in Arabic. The English file explains the messages.

## The connection

connected = تم الاتصال. اضغط علامة الاستفهام لسماع المفاتيح.
connected-again = تم الاتصال من جديد.
connection-lost = انقطع الاتصال. تجري إعادة المحاولة.
narration-ended = انتهى السرد.
not-connected = لا يوجد اتصال.
not-connected-not-sent = لا يوجد اتصال. لم يُرسل شيء. اضغط المفتاح من جديد بعد عودة الاتصال.
not-sent = لم يُرسل: { $why }. اضغط المفتاح من جديد.
too-much-waits = في الانتظار رسائل كثيرة

## The keys of a prompt

keys-approve-reject = اضغط y للموافقة، أو n للرفض.
keys-approve = اضغط y للموافقة.
keys-reject = اضغط n للرفض.
keys-number = اضغط رقمًا ثم Enter.
keys-yes-no = اضغط y للجواب بنعم، أو n للجواب بلا.
keys-or-yes-no = أو اضغط y للجواب بنعم، أو n للجواب بلا.
keys-type = اضغط a، واكتب الجواب، ثم اضغط Enter.
keys-or-type = أو اضغط a، واكتب الجواب، ثم اضغط Enter.
keys-type-number = اضغط a، واكتب عددًا، ثم اضغط Enter.
keys-or-type-number = أو اضغط a، واكتب عددًا، ثم اضغط Enter.

## In what a person approves, because they change what a command does

line-ends = { $count ->
        [zero] لا أسطر جديدة
        [one] سطر جديد
        [two] سطران جديدان
        [few] { $count } أسطر جديدة
        [many] { $count } سطرًا جديدًا
       *[other] { $count } سطر جديد
    }
blanks = { $count ->
        [zero] لا فراغات
        [one] فراغ واحد
        [two] فراغان
        [few] { $count } فراغات
        [many] { $count } فراغًا
       *[other] { $count } فراغ
    }
backtick = علامة اقتباس مائلة

## In the text of an agent

heading = عنوان: { $text }
task-done = تمّ: { $text }
task-open = لم يتم بعد: { $text }
code = شيفرة { $language }، { $count ->
        [zero] بلا أسطر
        [one] سطر واحد
        [two] سطران
        [few] { $count } أسطر
        [many] { $count } سطرًا
       *[other] { $count } سطر
    }.
code-plain = شيفرة، { $count ->
        [zero] بلا أسطر
        [one] سطر واحد
        [two] سطران
        [few] { $count } أسطر
        [many] { $count } سطرًا
       *[other] { $count } سطر
    }.
answer-cut = الجواب أطول من ذلك. يعرضه recount show كاملًا.

## Prompts of a run that has ended

past-permission = طُلب إذن: { $text }
past-question = كان لدى الوكيل سؤال: { $text }

## The time to answer

seconds = { $count ->
        [zero] لا ثوانٍ
        [one] ثانية واحدة
        [two] ثانيتان
        [few] { $count } ثوانٍ
        [many] { $count } ثانية
       *[other] { $count } ثانية
    }
minutes = { $count ->
        [zero] لا دقائق
        [one] دقيقة واحدة
        [two] دقيقتان
        [few] { $count } دقائق
        [many] { $count } دقيقة
       *[other] { $count } دقيقة
    }
hours = { $count ->
        [zero] لا ساعات
        [one] ساعة واحدة
        [two] ساعتان
        [few] { $count } ساعات
        [many] { $count } ساعة
       *[other] { $count } ساعة
    }
time-left = الوقت المتبقي: { $time }.
time-left-approved = الوقت المتبقي: { $time }، ثم تُعدّ موافقة.
time-left-rejected = الوقت المتبقي: { $time }، ثم يُرفض الطلب.
time-left-answered = الوقت المتبقي: { $time }، ثم يكون الجواب { $answer }.

## Prompts

another-prompt = هناك طلب آخر ينتظر. اضغط p لسماعه.
another-prompt-of = هناك طلب آخر ينتظر في التشغيل { $run }. اضغط p لسماعه.
more-prompts = وبقي { $count }؛ يقرأ p التالي.
no-prompt = لا يوجد طلب مفتوح.
prompt-closed = أُغلق الطلب. لم يُرسل شيء.
prompt-changed = تغيّر الطلب للتو. استمع، ثم اضغط المفتاح من جديد.
confirm-first = خطر كبير أو لا يمكن التراجع عنه. اضغط Enter للموافقة، أو أي مفتاح آخر للرجوع.
not-approved = لم تتم الموافقة. ما زال الطلب مفتوحًا.
not-answered = لم يُرسل جواب. ما زال الطلب مفتوحًا.
type-answer = اكتب الجواب، ثم Enter. يعيدك Escape إلى ما قبل.
nothing-typed = لم يُكتب شيء. اضغط a لكتابة جواب.
not-a-number = { $text } ليس عددًا. اضغط a لكتابة عدد.
not-a-choice = { $text } ليس من الخيارات.
choice = { $number }: { $answer }. اضغط Enter للجواب.
no-choice = لا يوجد طلب مفتوح فيه الخيار { $number }.
approval-sent = أُرسلت الموافقة.
rejection-sent = أُرسل الرفض.
answer-sent = أُرسل الجواب: { $answer }.
answer-sent-yes = أُرسل الجواب: نعم.
answer-sent-no = أُرسل الجواب: لا.
reply-without-effect = لم يكن لردك أثر. ما زال الطلب مفتوحًا.
asked-for-time = طُلب وقت إضافي: { $time }.

## Where am I

nothing-happened = لم يحدث شيء بعد.
no-run-active = لا يوجد تشغيل جارٍ.
run-ended = انتهى التشغيل.
runs-active = { $count ->
        [zero] لا يوجد تشغيل جارٍ.
        [one] تشغيل واحد جارٍ.
        [two] تشغيلان جاريان.
        [few] { $count } تشغيلات جارية.
        [many] { $count } تشغيلًا جاريًا.
       *[other] { $count } تشغيل جارٍ.
    }
not-started = لم يبدأ بعد.
run-says = التشغيل { $run }: { $text }
prompt-open = طلب واحد مفتوح: { $left } اضغط p لسماعه.
prompts-open = { $count ->
        [zero] لا يوجد طلب مفتوح: { $left }
        [one] طلب واحد مفتوح؛ { $left } اضغط p لسماعه.
        [two] طلبان مفتوحان؛ الأول: { $left } اضغط p لسماعه.
        [few] { $count } طلبات مفتوحة؛ الأول: { $left } اضغط p لسماعه.
        [many] { $count } طلبًا مفتوحًا؛ الأول: { $left } اضغط p لسماعه.
       *[other] { $count } طلب مفتوح؛ الأول: { $left } اضغط p لسماعه.
    }
cut-short = { $count ->
        [zero] لم يُقطع شيء.
        [one] قُطعت عبارة واحدة حتى الآن؛ يعيد r آخر العبارات.
        [two] قُطعت عبارتان حتى الآن؛ يعيد r آخر العبارات.
        [few] قُطعت { $count } عبارات حتى الآن؛ يعيد r آخر العبارات.
        [many] قُطعت { $count } عبارة حتى الآن؛ يعيد r آخر العبارات.
       *[other] قُطعت { $count } عبارة حتى الآن؛ يعيد r آخر العبارات.
    }

## Other keys

help = المسافة أو s: صمت. r: إعادة آخر عبارة، و3 ثم r آخر ثلاث. w: أين أنا. p: قراءة الطلب التالي. y: موافقة أو نعم. n: رفض أو
    لا. a: كتابة جواب. رقم ثم Enter: اختيار جواب. زائد وناقص: تفاصيل أكثر أو أقل. e: طلب وقت إضافي. c: إلغاء التشغيل.
    q: خروج.
not-a-key = ليس لهذا المفتاح عمل هنا. اضغط علامة الاستفهام للمساعدة.
nothing-spoken = لم يُنطق بشيء بعد.
level-now = المستوى: { $level }.
level-highest = { $level } هو أعلى مستوى.
level-lowest = { $level } هو أدنى مستوى.
level-brief = مقتضب
level-terse = قصير
level-normal = عادي
level-detailed = مفصّل
cancel-run = هل تريد إلغاء التشغيل؟ اضغط Enter لإلغائه، أو أي مفتاح آخر للرجوع.
cancel-run-of = هل تريد إلغاء التشغيل { $run }؟ اضغط Enter لإلغائه، أو أي مفتاح آخر للرجوع.
cancel-asked = طُلب الإلغاء.
not-cancelled = لم يُلغَ.
ended-already = انتهى التشغيل من قبل.
nothing-to-cancel = لا يوجد تشغيل جارٍ يمكن إلغاؤه.

## For producers that leave their own sentences out

session-started = بدأت الجلسة.
session-finished = انتهت الجلسة.
session-failed = فشلت الجلسة.
session-cancelled = أُلغيت الجلسة من { $by }.
using-tool = يستخدم { $tool }.
tool-ended = { $tool }: { $status }.
handover = يُطلب التسليم إلى { $target }: { $reason }
percent = { $percent } بالمئة.
step = الخطوة { $step }.
step-of = الخطوة { $step } من { $total }.
