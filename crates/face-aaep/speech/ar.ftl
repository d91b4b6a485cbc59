# What listeners hear of a run, in Arabic. docs/aaep/speech.md explains the format for translators.

## The beginning and the end

session-started = بدأ { $agent } العمل: { $request }
    .terse = بدأ العمل.
session-started-plain = بدأ { $agent } العمل.
    .terse = بدأ العمل.
session-completed = أنهى { $agent } العمل.
    .terse = انتهى.
    .detailed = أنهى { $agent } العمل بعد { $seconds ->
        [zero] أقل من ثانية
        [one] ثانية واحدة
        [two] ثانيتين
        [few] { $seconds } ثوانٍ
        [many] { $seconds } ثانية
       *[other] { $seconds } ثانية
    } و{ $calls ->
        [zero] دون استخدام أدوات
        [one] استخدام أداة واحدة
        [two] استخدام أداتين
        [few] { $calls } استخدامات للأدوات
        [many] { $calls } استخدامًا للأدوات
       *[other] { $calls } استخدام للأدوات
    }.
session-completed-saying = انتهى العمل: { $answer }
    .terse = انتهى.
    .detailed = أنهى { $agent } العمل بعد { $seconds ->
        [zero] أقل من ثانية
        [one] ثانية واحدة
        [two] ثانيتين
        [few] { $seconds } ثوانٍ
        [many] { $seconds } ثانية
       *[other] { $seconds } ثانية
    } و{ $calls ->
        [zero] دون استخدام أدوات
        [one] استخدام أداة واحدة
        [two] استخدام أداتين
        [few] { $calls } استخدامات للأدوات
        [many] { $calls } استخدامًا للأدوات
       *[other] { $calls } استخدام للأدوات
    }: { $answer }
session-errored = فشل التشغيل: { $message }
    .terse = فشل.
    .detailed = فشل التشغيل بالرمز { $code }: { $message }
session-cancelled = أُلغي التشغيل: { $reason }
    .terse = أُلغي.
session-cancelled-plain = أُلغي التشغيل.
    .terse = أُلغي.
remedy-retry = قد تفيد إعادة التشغيل.
remedy-none = لن تفيد إعادة التشغيل؛ انظر إلى الخطأ أولًا.

## States

thinking = يفكر.
    .terse = يفكر.
deciding = يختار الخطوة التالية.
    .terse = يقرر.
writing = يكتب.
    .terse = يكتب.
calling-tool = يستخدم أداة.
    .terse = يستخدم أداة.
awaiting-input = في انتظار جوابك.
    .terse = ينتظر.
still-awaiting-input = { $prompts ->
        [zero] لا يوجد سؤال آخر.
        [one] ما زال سؤال واحد ينتظر جوابك.
        [two] ما زال سؤالان ينتظران جوابك.
        [few] ما زالت { $prompts } أسئلة تنتظر جوابك.
        [many] ما زال { $prompts } سؤالًا ينتظر جوابك.
       *[other] ما زال { $prompts } سؤال ينتظر جوابك.
    }
    .terse = ما زال ينتظر.
handing-off = يسلّم العمل.
    .terse = تسليم.

## The course of a run

taken-over = يتابع عامل آخر هذا التشغيل.
    .terse = متابعة.
throttled = التشغيل في الموضع { $place } من قائمة الانتظار: { $reason }
    .terse = في قائمة الانتظار.
continued = يستمر التشغيل.
    .terse = يستمر.
continued-by = يستمر التشغيل بعد جواب من { $by }.
    .terse = يستمر.
resumed = يستمر هذا التشغيل من حيث توقف تشغيل سابق.
    .terse = استؤنف.
disconnected = انقطع الاتصال بالوكيل مدة. ما فعله في أثنائها غير موجود في هذا السجل.
    .terse = انقطع الاتصال.
waiting-for-application = في انتظار أن ينفذ التطبيق { $calls ->
        [zero] ما طُلب منه
        [one] طلبًا واحدًا
        [two] طلبين
        [few] { $calls } طلبات
        [many] { $calls } طلبًا
       *[other] { $calls } طلب
    }.
    .terse = في انتظار التطبيق.
turn-failed = لم يتمكن النموذج من الإجابة: { $message }
    .terse = خطأ في النموذج.
turn-retried = لم يتمكن النموذج من الإجابة ويُسأل مرة أخرى: { $message }
    .terse = إعادة المحاولة.
turn-retried-plain = لم يتمكن النموذج من الإجابة ويُسأل مرة أخرى.
    .terse = إعادة المحاولة.
text-cut = قُطع النص.
    .terse = قُطع.
compacted = حل ملخص محل أجزاء سابقة من المحادثة.
    .terse = اختُصرت المحادثة.
workspace-failed = تعذر إعداد مجلد العمل.
    .terse = لا مجلد عمل.
budget-warning = استُهلك { $percent } بالمئة من الميزانية.
    .terse = الميزانية { $percent } بالمئة.
budget-exceeded = استُهلكت الميزانية كلها. يتوقف التشغيل.
    .terse = نفدت الميزانية.
child-started = بدأ هذا التشغيل تشغيلًا آخر.
    .terse = تشغيل آخر.
child-started-saying = بدأ هذا التشغيل تشغيلًا آخر: { $summary }
    .terse = تشغيل آخر.

## Tools

tool-invoked = يستخدم { $tool }.
    .terse = { $tool }.
tool-invoked-with = يستخدم { $tool }: { $arguments }
    .terse = { $tool }.
tool-irreversible = يستخدم { $tool }، ولا يمكن التراجع عن ذلك: { $arguments }
    .terse = { $tool }، لا يمكن التراجع.
tool-unasked = يستخدم { $tool } دون إذن. { $arguments }
    .terse = { $tool }، دون إذن.
tool-unasked-irreversible = يستخدم { $tool } دون إذن. لا يمكن التراجع عن ذلك. { $arguments }
    .terse = { $tool }، دون إذن، لا يمكن التراجع.
tool-running = ما زال { $tool } يعمل منذ { $seconds ->
        [zero] أقل من ثانية
        [one] ثانية واحدة
        [two] ثانيتين
        [few] { $seconds } ثوانٍ
        [many] { $seconds } ثانية
       *[other] { $seconds } ثانية
    }.
    .terse = ما زال { $tool } يعمل.
tool-running-saying = ما زال { $tool } يعمل منذ { $seconds ->
        [zero] أقل من ثانية
        [one] ثانية واحدة
        [two] ثانيتين
        [few] { $seconds } ثوانٍ
        [many] { $seconds } ثانية
       *[other] { $seconds } ثانية
    }: { $line }
    .terse = ما زال { $tool } يعمل.
tool-succeeded = اكتمل { $tool }.
    .terse = اكتمل.
tool-succeeded-saying = اكتمل { $tool }: { $summary }
    .terse = اكتمل.
tool-failed = فشل { $tool }: { $error }
    .terse = فشل { $tool }.
tool-failed-plain = فشل { $tool }.
    .terse = فشل { $tool }.
tool-cancelled = أُوقف { $tool }.
    .terse = أُوقف { $tool }.
tool-interrupted = قوطع { $tool }. لا يُعرف هل كان له أثر.
    .terse = قوطع { $tool }.
tool-timed-out = استغرق { $tool } وقتًا أطول من اللازم فأُوقف.
    .terse = انتهى وقت { $tool }.
tool-abandoned = لم تكن لدى { $tool } نتيجة عند انتهاء التشغيل.
    .terse = { $tool } بلا نتيجة.
tool-refused = لم يُنفذ { $tool }: { $reason }
    .terse = لم يُنفذ { $tool }.
todo = الخطوة { $step } من { $total }: { $item }
    .terse = الخطوة { $step } من { $total }.

## Permission

confirmation = مطلوب إذنك: { $action } { $consequence }
    .terse = هل تسمح؟ { $action }
    .detailed = مطلوب إذنك: { $action } { $consequence } { $preview }
confirmation-irreversible = مطلوب إذنك: { $action } { $consequence } لا يمكن التراجع عن هذا.
    .terse = هل تسمح؟ { $action } لا يمكن التراجع عن هذا.
    .detailed = مطلوب إذنك: { $action } { $consequence } لا يمكن التراجع عن هذا. { $preview }
consequence-unknown = ما يترتب عليه غير معروف.
consequence-by-rule = تطلب قاعدة إذنك: { $reason }
action-unknown = استخدام { $tool }.
approved = سمح { $by } بذلك.
    .terse = مسموح.
approved-saying = سمح { $by } بذلك: { $comment }
    .terse = مسموح.
rejected = رفض { $by }. لن يُنفذ.
    .terse = مرفوض.
rejected-saying = رفض { $by }: { $comment } لن يُنفذ.
    .terse = مرفوض.
approval-withdrawn = سُحب السؤال. لن يُنفذ.
    .terse = سُحب.
approval-timed-out-rejected = لم يجب أحد في الوقت المحدد. لن يُنفذ.
    .terse = لا جواب، لن يُنفذ.
approval-timed-out-approved = لم يجب أحد في الوقت المحدد. يُنفذ كما أُعلن.
    .terse = لا جواب، يُنفذ.

## The time to answer

extended-seconds = طلب { $by } وقتًا إضافيًا للجواب: { $seconds ->
        [zero] لا ثوانٍ
        [one] ثانية واحدة
        [two] ثانيتان
        [few] { $seconds } ثوانٍ
        [many] { $seconds } ثانية
       *[other] { $seconds } ثانية
    }.
    .terse = وقت إضافي.
extended-minutes = طلب { $by } وقتًا إضافيًا للجواب: { $minutes ->
        [zero] لا دقائق
        [one] دقيقة واحدة
        [two] دقيقتان
        [few] { $minutes } دقائق
        [many] { $minutes } دقيقة
       *[other] { $minutes } دقيقة
    }.
    .terse = وقت إضافي.
seconds-left = الوقت المتبقي للجواب: { $seconds ->
        [zero] لا ثوانٍ
        [one] ثانية واحدة
        [two] ثانيتان
        [few] { $seconds } ثوانٍ
        [many] { $seconds } ثانية
       *[other] { $seconds } ثانية
    }.
    .terse = بقي { $seconds } ث.
minutes-left = الوقت المتبقي للجواب: { $minutes ->
        [zero] لا دقائق
        [one] دقيقة واحدة
        [two] دقيقتان
        [few] { $minutes } دقائق
        [many] { $minutes } دقيقة
       *[other] { $minutes } دقيقة
    }.
    .terse = بقي { $minutes } د.

## Questions

clarification = { $question } { $choices }
    .terse = سؤال: { $question }
clarification-in-context = { $question } { $choices }
    .terse = سؤال: { $question }
    .detailed = { $context } { $question } { $choices }
choices = اختر واحدًا مما يلي: { $choices }.
answered = أجاب { $by }: { $answer }
    .terse = أُجيب.
answered-plain = أجاب { $by }.
    .terse = أُجيب.
unanswered-default = لم يجب أحد في الوقت المحدد. يتابع الوكيل بالجواب: { $answer }
    .terse = لا جواب، استُخدم الجواب الافتراضي.
unanswered = لم يجب أحد.
    .terse = لا جواب.
question-withdrawn = سُحب السؤال.
    .terse = سُحب.

## Handing over

handoff = لا يستطيع الوكيل المتابعة ويطلب من يتولى العمل: { $reason }
    .terse = مطلوب من يتولى العمل.
handoff-acknowledged = يتولى { $by } العمل.
    .terse = تولّى العمل.
handoff-rejected = لم يتولَّ { $by } العمل.
    .terse = لم يُتولَّ.
handoff-rejected-saying = لم يتولَّ { $by } العمل: { $reason }
    .terse = لم يُتولَّ.
handoff-timed-out = لم يتولَّ أحد العمل في الوقت المحدد.
    .terse = لم يتولَّ أحد.

## Rules and errors

blocked = تمنع قاعدة { $tool }: { $reason }
    .terse = { $tool } ممنوع.
model-rewritten = يُستخدم النموذج { $to } بدلًا من { $from }: { $reason }
    .terse = نموذج آخر.
tool-unavailable = { $tool } غير موجود: { $reason }
    .terse = { $tool } غير موجود.
capability-missing = لا يستطيع النموذج { $model } القيام بالمطلوب: { $capability }
    .terse = النموذج غير مناسب.
upstream = لدى { $provider } مشكلة: { $message }
    .terse = مشكلة لدى المزود.

## Joining a run

joined = { $agent } يعمل الآن. { $state }
    .terse = { $state }
joined-request = { $agent } يعمل الآن على ما يلي: { $request } { $state }
    .terse = { $state }
missed = لم يصل إلى هنا بعض ما قام به { $agent }. { $state }
    .terse = فات بعض ما جرى. { $state }
aged-out = لم يعد ما جرى في هذا العمل محفوظًا.
    .terse = لم يعد محفوظًا.
damaged = جزء من سجل هذا التشغيل تالف ولا يمكن قراءته، وما يليه لا يُذكر هنا.
    .terse = جزء من السجل لا يمكن قراءته.
remedy-damaged = استعد السجل من نسخة احتياطية.
open-prompts = { $prompts ->
        [zero] لا يوجد سؤال ينتظر جوابك.
        [one] سؤال واحد ينتظر جوابك.
        [two] سؤالان ينتظران جوابك.
        [few] { $prompts } أسئلة تنتظر جوابك.
        [many] { $prompts } سؤالًا ينتظر جوابك.
       *[other] { $prompts } سؤال ينتظر جوابك.
    }
tools-running = { $calls ->
        [zero] لا يستخدم أي أداة.
        [one] يستخدم أداة واحدة.
        [two] يستخدم أداتين في وقت واحد.
        [few] يستخدم { $calls } أدوات في وقت واحد.
        [many] يستخدم { $calls } أداة في وقت واحد.
       *[other] يستخدم { $calls } أداة في وقت واحد.
    }

## Prompts that others answer

confirmation-of-others = يُطلب الإذن من آخرين: { $action } { $consequence }
    .terse = يُسأل آخرون: { $action }
confirmation-of-others-irreversible = يُطلب الإذن من آخرين: { $action } { $consequence } لا يمكن التراجع عن هذا.
    .terse = يُسأل آخرون: { $action } لا يمكن التراجع عن هذا.
clarification-of-others = يُسأل آخرون: { $question }
    .terse = يُسأل آخرون: { $question }

## Read aloud by the console

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

## Names in the place of others

unnamed = شخص ما
agent-unnamed = الوكيل
